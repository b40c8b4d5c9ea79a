// Builds the page into `target/page`: `node build.mjs [--quick]`.
//
// `--quick` compiles as tests do and leaves wasm-opt out: it is for tests and for work on the page. Without it, the sizes are printed
// as they go over the network.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");
const out = join(target, "page");
const quick = process.argv.includes("--quick");
// Messages of panics name files: the folders before them are no use to a visitor.
const folders = [root, join(process.env.CARGO_HOME ?? join(homedir(), ".cargo"), "registry/src")];
const shortened = folders.map((folder) => `--remap-path-prefix=${folder}=`);

function run(command, args, env = {}) {
    const start = Date.now();
    execFileSync(command, args, { cwd: root, stdio: ["ignore", "inherit", "inherit"], env: { ...process.env, ...env } });
    console.log(`${((Date.now() - start) / 1000).toFixed(1)} s: ${command} ${args.slice(0, 4).join(" ")}`);
}

/** The files under a folder, by their paths in it. */
function files(folder) {
    const all = readdirSync(folder, { recursive: true }).map(String);
    return all.filter((name) => statSync(join(folder, name)).isFile()).sort();
}

/** Compiles the program, and puts it into its folder of the page. */
function compile() {
    // A folder of its own, because other flags would build everything anew in a common one.
    const folder = join(target, "web");
    const profile = quick ? "page-test" : "web";
    run("cargo", ["build", "--quiet", "-p", "regard-web", "--target", "wasm32-unknown-unknown", "--target-dir", folder, "--profile", profile], {
        CARGO_ENCODED_RUSTFLAGS: ["-Ctarget-feature=+simd128", ...(quick ? [] : shortened)].join("\x1f"),
    });
    const made = join(folder, "wasm32-unknown-unknown", profile, "regard_web.wasm");
    const page = join(out, "program");
    // As a part of the workspace, whose tests share most of its dependencies.
    run("cargo", ["build", "--quiet", "--workspace", "--features", "regard-web/bindgen", "--example", "bindgen", "--target-dir", target]);
    run(join(target, "debug/examples/bindgen"), [made, page]);
    if (!quick) {
        const wasm = join(page, "regard_bg.wasm");
        const optimiser = join(here, "node_modules/binaryen/bin/wasm-opt");
        const allowed = ["bulk-memory", "nontrapping-float-to-int", "sign-ext", "mutable-globals", "reference-types", "multivalue", "simd"];
        run(process.execPath, [optimiser, wasm, "-o", wasm, "-Oz", ...allowed.map((name) => `--enable-${name}`)]);
    }
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
compile();
for (const name of readdirSync(join(here, "static"))) cpSync(join(here, "static", name), join(out, name));
cpSync(join(here, "src/system.js"), join(out, "system.js"));
// The program fetches it after the first frame.
cpSync(join(root, "models/english/english.gguf"), join(out, "english.gguf"));

const { size } = statSync(join(out, "program/regard_bg.wasm"));
writeFileSync(join(out, "page.js"), readFileSync(join(here, "static/page.js"), "utf8").replace("const BYTES = 1;", `const BYTES = ${size};`));

// The service worker keeps the files of this version; its name is the hash of them all.
const hash = createHash("sha256");
const kept = files(out).filter((name) => name !== "sw.js");
for (const name of kept) hash.update(name).update(readFileSync(join(out, name)));
const worker = readFileSync(join(here, "static/sw.js"), "utf8")
    .replace('"VERSION"', JSON.stringify(hash.digest("hex").slice(0, 16)))
    .replace('["FILES"]', JSON.stringify(["./", ...kept]));
writeFileSync(join(out, "sw.js"), worker);

const kB = (bytes) => `${(bytes / 1000).toFixed(0)} kB`.padStart(9);
for (const name of quick ? [] : files(out).filter((name) => /\.(wasm|js|html)$/.test(name))) {
    const bytes = readFileSync(join(out, name));
    console.log(`${name.padEnd(24)}${kB(bytes.length)}, gzip ${kB(gzipSync(bytes, { level: 9 }).length)}, brotli ${kB(brotliCompressSync(bytes).length)}`);
}
console.log(`the page is in ${relative(process.cwd(), out)}`);
