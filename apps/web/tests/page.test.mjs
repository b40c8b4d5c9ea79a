// The page in a real browser: `npm test`, after `node build.mjs --quick` or `node build.mjs`.
//
// The tests reach every control by its role and name, through the elements that mirror the accessibility tree.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync, inflateRawSync } from "node:zlib";

import { chromium } from "playwright-core";

import { serve } from "../serve.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../../..");
const program = process.env.REGARD ?? join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "debug/regard");
const pictures = process.env.PICTURES;
const models = join(root, "tests/golden/models");
let server, browser, origin;

function launch(...flags) {
    return chromium.launch({
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        // A build for tests is larger than what Chromium compiles at once: the last flag lets it.
        args: ["--no-sandbox", "--enable-unsafe-swiftshader", "--use-angle=swiftshader", "--enable-features=WebAssemblyUnlimitedSyncCompilation", ...flags],
    });
}

before(async () => {
    server = await serve();
    origin = `http://127.0.0.1:${server.address().port}/`;
    browser = await launch();
    if (pictures) mkdirSync(pictures, { recursive: true });
});

after(async () => {
    await browser?.close();
    server?.close();
});

/** Opens the page in a fresh browser profile. `script` runs before it, `routes` changes what the network answers. Every message on the console is an error of the test. */
async function open(t, address = "", { script, routes, from = browser, ...options } = {}) {
    const context = await from.newContext({ viewport: { width: 1280, height: 800 }, serviceWorkers: "block", ...options });
    t.after(() => context.close());
    const page = await context.newPage();
    page.setDefaultTimeout(180_000); // a quick build on a busy machine
    if (script) await page.addInitScript(script);
    await routes?.(page);
    // Controls are looked for among the mirrored elements: beside them there is only the field that brings up a phone's keyboard.
    page.getByRole = (...asked) => page.locator("#mirror").getByRole(...asked);
    page.complaints = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && page.complaints.push(message.text()));
    page.on("pageerror", (error) => page.complaints.push(String(error)));
    await page.goto(origin + address);
    await page.waitForFunction(() => document.body.classList.contains("drawn"));
    return page;
}

/** Chromium's remarks on WebGL in software, which are not the page's. */
const own = (complaints) => complaints.filter((text) => !/GL Driver Message|GPU stall|swiftshader|Service Worker registration blocked/i.test(text));

async function picture(page, name) {
    if (pictures) await page.screenshot({ path: join(pictures, `${name}.png`) });
}

/** Uses a control as assistive technology does. */
const press = (locator) => locator.first().dispatchEvent("click");

/** The place of a control, once it moves no more. */
async function settled(locator) {
    let [before, place] = [null, await locator.boundingBox()];
    while (JSON.stringify(before) !== JSON.stringify(place)) {
        await locator.page().waitForTimeout(1500);
        [before, place] = [place, await locator.boundingBox()];
    }
    return place;
}

/** Every text of the window. */
const texts = (page) => page.locator("#mirror [data-role=text]").allTextContents();

function regard(...args) {
    return execFileSync(program, args, { encoding: "utf8" });
}

test("the page loads without a complaint, and shows a heatmap", async (t) => {
    const page = await open(t);
    await page.getByRole("img").first().waitFor({ state: "attached" });
    await page.waitForTimeout(300);
    await picture(page, "wide");
    assert.deepEqual(own(page.complaints), []);
});

for (const [room, controls] of [
    ["Walkthrough", [["combobox", "Example"], ["slider", "Temperature as a power of ten"], ["img", /^Heatmap of/]]],
    ["Laboratory", [["slider", "Tokens"], ["slider", "Dimensions"], ["checkbox", "Causal"], ["img", "Heatmap of Weights"]]],
    ["Stage", [["textbox", "Text"], ["button", /^Model: english, /], ["slider", "How sharply the heads look"], ["img", "Heatmap of Head 5.3"], ["button", "Compare"], ["button", /Mary: 99/], ["combobox", "Sort heads by"], ["button", /^head 1\.2, entropy/]]],
]) {
    test(`${room}: every control has its role and its name`, async (t) => {
        const page = await open(t);
        await press(page.getByRole("button", { name: room, exact: true }));
        for (const [role, name] of controls) await page.getByRole(role, { name, exact: true }).first().waitFor({ state: "attached" });
        await picture(page, room.toLowerCase());
        assert.deepEqual(own(page.complaints), []);
    });
}

test("a moved slider gives the weights that `regard walk --temperature` prints", async (t) => {
    const page = await open(t, "#room=walkthrough&example=the-cat-sat");
    const shown = async () => (await texts(page)).filter((text) => text.startsWith("■ ")).map((text) => text.split(" "));
    for (const temperature of [0.1, 0.5, 2]) {
        const slider = page.getByRole("slider", { name: "Temperature as a power of ten" });
        await slider.evaluate((input, value) => {
            input.value = value;
            input.dispatchEvent(new Event("input", { bubbles: true }));
        }, Math.log10(temperature));
        const walked = JSON.parse(regard("walk", "the-cat-sat", "--format", "json", "--temperature", String(temperature)));
        const [, query] = (await page.getByRole("img", { name: /^Plot: Weights of/ }).getAttribute("aria-label")).match(/"(.*)"/);
        const wanted = walked.weights[walked.tokens.indexOf(query)].map((weight, i) => ["■", walked.tokens[i], weight.toFixed(3)]);
        await page.waitForFunction((first) => document.getElementById("mirror").textContent.includes(first), wanted[0].join(" "));
        assert.deepEqual(await shown(), wanted);
    }
    assert.deepEqual(own(page.complaints), []);
});

const TEXT = "Mary and John went to the store. John had a cold drink. John gave the drink to";

/** The words of a list. A token that is a part of a letter has another name in each place. */
const words = (tokens) => tokens.filter((token) => /^[\w.,]+$/.test(token));

/** Types a text, and waits until the page predicts the tokens that `regard predict` prints. */
async function predicts(page, model, text) {
    const field = page.getByRole("textbox", { name: "Text", exact: true });
    await field.fill(text);
    const { next } = JSON.parse(regard("predict", model, "--text", text, "--top", "5", "--format", "json"));
    const wanted = words(next.map((each) => each.token));
    assert.ok(wanted.length > 1, String(wanted));
    const shown = page.getByRole("button", { name: /: (< )?[\d.]+ %$/ });
    const names = async () => words(await shown.evaluateAll((all) => all.slice(0, 5).map((button) => button.getAttribute("aria-label").replace(/: [^:]*$/, ""))));
    for (let i = 0; i < 200 && JSON.stringify(await names()) !== JSON.stringify(wanted); i++) {
        await page.waitForTimeout(100);
        // A model that is still opening sets a text of its own.
        if ((await field.inputValue()) !== text) await field.fill(text);
    }
    assert.deepEqual(await names(), wanted);
}

test("story predicts the tokens that `regard predict` prints", async (t) => {
    const page = await open(t, `?model=story&text=${encodeURIComponent(TEXT)}`);
    for (const text of [TEXT, "Lily had a red ball. Lily gave the ball to Max. Max"]) await predicts(page, "story", text);
    await picture(page, "story");
    assert.deepEqual(own(page.complaints), []);
});

/** The bytes of a head of story, as the page exports it. */
async function exported(page) {
    await press(page.getByRole("button", { name: /^head 1\.2, / }));
    await page.getByRole("img", { name: /^Heatmap of Head 1\.2/ }).waitFor({ state: "attached" });
    await page.keyboard.press("Control+Shift+E");
    await page.getByRole("textbox", { name: "Path of the file" }).fill("head.npy");
    const [download] = await Promise.all([
        page.waitForEvent("download"),
        press(page.getByRole("button", { name: "Export", exact: true })),
    ]);
    assert.equal(download.suggestedFilename(), "head.npy");
    const numpy = readFileSync(await download.path());
    return numpy.subarray(10 + numpy.readUInt16LE(8));
}

/** The bytes of the same head, as `regard trace` computes it on a tier. */
function traced(t, tier) {
    const folder = mkdtempSync(join(tmpdir(), "regard-"));
    t.after(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "trace.safetensors");
    execFileSync(program, ["trace", "story", "--text", TEXT, "--output", file], { env: { ...process.env, REGARD_TIER: tier }, stdio: "pipe" });
    const bytes = readFileSync(file);
    const header = Number(bytes.readBigUInt64LE(0));
    const { shape, data_offsets } = JSON.parse(bytes.subarray(8, 8 + header)).attentions;
    const size = 4 * shape[2] * shape[3];
    const start = 8 + header + data_offsets[0] + size * (1 * shape[1] + 2);
    return bytes.subarray(start, start + size);
}

test("the page computes the bits of SSE2: an exported head is that of `regard trace` without fused multiply-add", async (t) => {
    const page = await open(t, `?model=story&text=${encodeURIComponent(TEXT)}`);
    const computed = await exported(page);
    assert.equal(computed.length, 4 * 20 * 20);
    assert.ok(computed.equals(traced(t, "portable")), "the bits of the page are those of SSE2");
});

/** Drops a file onto the window. */
async function drop(page, name, bytes) {
    await page.evaluate(([name, bytes]) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(bytes)], name));
        document.getElementById("window").dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
    }, [name, [...bytes]]);
}

test("files that are dropped open, and a broken one gives its message", async (t) => {
    const page = await open(t);
    await drop(page, "sample.safetensors", readFileSync(join(root, "crates/regard-session/assets/sample.safetensors")));
    await page.getByRole("button", { name: "Model: sample.safetensors" }).waitFor({ state: "attached" });
    await page.getByRole("button", { name: /^head 2\.3, / }).waitFor({ state: "attached" });
    await drop(page, "broken.safetensors", Buffer.from("no tensors"));
    await page.getByText(/broken\.safetensors.*header/s).first().waitFor({ state: "attached" });
    await drop(page, "broken.gguf", Buffer.from("no model"));
    await page.getByText(/broken\.gguf was not opened/).first().waitFor({ state: "attached" });
    await picture(page, "broken");
    // What is too large is refused before it is read.
    await page.evaluate(async () => {
        const system = await import("./system.js");
        system.page.open(await system.read([["large.gguf", { size: 2 ** 31 }]]));
    });
    await page.getByText(/large\.gguf was not opened: 2048 MiB are too much/).first().waitFor({ state: "attached" });
    assert.deepEqual(own(page.complaints), []);
});

test("files that are chosen together open as a model", async (t) => {
    const page = await open(t, "#room=model");
    await page.getByRole("button", { name: /: (< )?[\d.]+ %$/ }).first().waitFor({ state: "attached" }); // the model has run
    await page.keyboard.press("Control+Shift+M");
    const browse = page.getByRole("button", { name: "Browse…", exact: true });
    await browse.waitFor({ state: "attached" });
    const { x, y, width, height } = await settled(browse);
    // A browser shows its dialog only after a real click.
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.waitForTimeout(300);
    const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.mouse.click(x + width / 2, y + height / 2, { delay: 200 })]);
    assert.ok(chooser.isMultiple());
    const folder = join(models, "tiny-gpt2");
    await chooser.setFiles(["config.json", "model.safetensors", "tokenizer.json"].map((name) => join(folder, name)));
    await page.waitForFunction(() => document.querySelector('[aria-label="Path of the file"]').value === "files");
    await press(page.getByRole("button", { name: "Open", exact: true }));
    await page.getByRole("button", { name: /^Model: .*gpt2, 2 layers of 4 heads/ }).waitFor({ state: "attached" });
    await predicts(page, folder, "one two three");
    assert.deepEqual(own(page.complaints), []);
});

/** Drops files or folders of the disk onto the window, as a file manager does. */
async function dropPaths(page, ...files) {
    const session = await page.context().newCDPSession(page);
    const data = { items: [], files, dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"]) await session.send("Input.dispatchDragEvent", { type, x: 400, y: 400, data });
}

test("a folder that is dropped opens as a model", async (t) => {
    const page = await open(t);
    await dropPaths(page, join(models, "tiny-llama"));
    await page.getByRole("button", { name: /^Model: .*llama, \d layers of \d heads/ }).waitFor({ state: "attached" });
    await predicts(page, join(models, "tiny-llama"), "the cat sat on");
    assert.deepEqual(own(page.complaints), []);
});

test("files that are dropped together open as a model", async (t) => {
    const page = await open(t);
    const folder = join(models, "tiny-gpt2");
    await dropPaths(page, ...["config.json", "model.safetensors", "tokenizer.json"].map((name) => join(folder, name)));
    await page.getByRole("button", { name: /^Model: .*gpt2, 2 layers of 4 heads/ }).waitFor({ state: "attached" });
    await predicts(page, folder, "one two three");
    assert.deepEqual(own(page.complaints), []);
});

/** Writes a model like tiny-gpt2 with so many layers of this width, and weights of no meaning. */
function write(folder, layers, width) {
    cpSync(join(models, "tiny-gpt2"), folder, { recursive: true });
    const config = JSON.parse(readFileSync(join(folder, "config.json")));
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, n_layer: layers, n_embd: width, n_positions: 256 }));
    const shapes = { "wte.weight": [config.vocab_size, width], "wpe.weight": [256, width], "ln_f.weight": [width], "ln_f.bias": [width] };
    for (let layer = 0; layer < layers; layer++) {
        for (const norm of ["ln_1", "ln_2"]) for (const part of ["weight", "bias"]) shapes[`h.${layer}.${norm}.${part}`] = [width];
        for (const [name, inputs, outputs] of [["attn.c_attn", 1, 3], ["attn.c_proj", 1, 1], ["mlp.c_fc", 1, 4], ["mlp.c_proj", 4, 1]]) {
            shapes[`h.${layer}.${name}.weight`] = [inputs * width, outputs * width];
            shapes[`h.${layer}.${name}.bias`] = [outputs * width];
        }
    }
    const numbered = Object.entries(shapes).map(([name, shape]) => [`transformer.${name}`, shape]);
    writeTensors(join(folder, "model.safetensors"), Object.fromEntries(numbered), (i) => 0.02 * Math.sin(i * i));
}

/** Writes a safetensors file with tensors of these shapes. `number` gives the number at a place of the file. Returns the numbers. */
function writeTensors(file, shapes, number) {
    let end = 0;
    const header = {};
    for (const [name, shape] of Object.entries(shapes)) {
        const start = end;
        end += 4 * shape.reduce((product, size) => product * size);
        header[name] = { dtype: "F32", shape, data_offsets: [start, end] };
    }
    const text = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    const numbers = Float32Array.from({ length: end / 4 }, (_, i) => number(i));
    writeFileSync(file, Buffer.concat([length, text, Buffer.from(numbers.buffer)]));
    return numbers;
}

test("an answer that is copied in several turns arrives whole, from a file that the worker alone holds", async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "regard-"));
    t.after(() => rmSync(folder, { recursive: true }));
    const n = 400;
    const file = join(folder, "wide.safetensors");
    const numbers = writeTensors(file, { attentions: [2, 4, n, n] }, (i) => (2 * (((i * 7 + Math.floor(i / n)) % n) + 1)) / (n * (n + 1)));
    const page = await open(t);
    await dropPaths(page, file);
    await page.getByRole("button", { name: "Model: wide.safetensors" }).waitFor({ state: "attached" });
    assert.ok((await exported(page)).equals(Buffer.from(numbers.buffer, 4 * 6 * n * n, 4 * n * n)), "head 1.2 is that of the file");
    assert.deepEqual(own(page.complaints), []);
});

test("the page goes on while the worker is at work", async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "regard-"));
    t.after(() => rmSync(folder, { recursive: true }));
    write(join(folder, "wide"), 6, 192);
    // The worker's answers wait until the test lets them through.
    const script = () => {
        let arrived;
        const passed = new Promise((done) => (arrived = done));
        Object.assign(window, { arrived, longest: 0, held: 0 });
        const { set } = Object.getOwnPropertyDescriptor(Worker.prototype, "onmessage");
        Object.defineProperty(Worker.prototype, "onmessage", {
            set(take) {
                set.call(this, (event) => {
                    window.held++;
                    passed.then(() => take(event));
                });
            },
        });
        let last = performance.now();
        const turn = () => {
            window.longest = Math.max(window.longest, performance.now() - last);
            last = performance.now();
            setTimeout(turn, 0);
        };
        turn();
    };
    const page = await open(t, "#room=walkthrough&example=the-cat-sat", { script });
    const room = (name) => press(page.getByRole("button", { name, exact: true }));
    await page.getByRole("img", { name: /^Heatmap of/ }).first().waitFor({ state: "attached" });
    await room("Laboratory");
    await page.getByRole("slider", { name: "Tokens", exact: true }).waitFor({ state: "attached" });
    await room("Stage");
    await page.getByRole("button", { name: /^Model: / }).waitFor({ state: "attached" });
    await page.waitForFunction(() => window.held > 0);
    await picture(page, "waiting");
    assert.equal(await page.getByRole("button", { name: /Mary: 99/ }).count(), 0);
    await room("Walkthrough");
    const slider = page.getByRole("slider", { name: "Temperature as a power of ten" });
    await slider.waitFor({ state: "attached" });
    const before = String(await texts(page));
    await slider.evaluate((input) => {
        input.value = 0.3;
        input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await page.waitForFunction((before) => String([...document.querySelectorAll("#mirror [data-role=text]")].map((text) => text.textContent)) !== before, before);
    await page.evaluate(() => window.arrived());
    await room("Stage");
    await page.getByRole("button", { name: /Mary: 99/ }).waitFor({ state: "attached" });

    await dropPaths(page, join(folder, "wide"));
    await page.getByRole("button", { name: /^Model: .*gpt2, 6 layers of 4 heads/ }).waitFor({ state: "attached" });
    await page.getByRole("textbox", { name: "Text", exact: true }).fill("the cat sat on the mat and the dog lay on the rug ".repeat(3).trim());
    await press(page.getByRole("combobox", { name: "Overlay of the heads" }));
    await press(page.getByRole("button", { name: "Ablation effect" }));
    await page.getByText(/^Ablating heads: \d+ of 24/).first().waitFor({ state: "attached" });
    // Another room answers while the heads are ablated in turn.
    await room("Laboratory");
    await page.getByRole("slider", { name: "Tokens", exact: true }).waitFor({ state: "attached" });
    t.diagnostic(`the page stood still for at most ${(await page.evaluate(() => window.longest)).toFixed(0)} ms`);
    assert.deepEqual(own(page.complaints), []);
});

test("a session's address restores it, and the browser keeps it", async (t) => {
    const page = await open(t);
    await press(page.getByRole("button", { name: "Laboratory", exact: true }));
    const tokens = page.getByRole("spinbutton", { name: "Tokens", exact: true });
    await tokens.fill("48");
    await page.waitForURL(/#s=/);
    await page.waitForFunction(() => (localStorage.getItem("last.regard.json") ?? "").includes('"tokens": 48'));
    const link = page.url();
    const packed = new URLSearchParams(new URL(link).hash.slice(1)).get("s");
    assert.match(inflateRawSync(Buffer.from(packed, "base64url")).toString(), /"tokens":48/);
    t.diagnostic(`the address has ${link.length} characters`);
    assert.ok(link.length < 500, link);

    const other = await open(t, new URL(link).hash);
    // The field is there before the laboratory has the numbers of its session.
    const restored = () => [...document.querySelectorAll('#mirror [aria-label="Tokens"]')].some((field) => field.type === "number" && field.value === "48");
    await other.waitForFunction(restored);
    // Without the link, the browser's own memory.
    await page.goto("about:blank");
    await page.goto(origin);
    await page.waitForFunction(restored);
    assert.deepEqual(own(page.complaints), []);
});

test("a phone's narrow screen shows the rooms, and fingers reach what a pointer does", async (t) => {
    // With a larger scale factor, the emulation says that the canvas has fewer pixels than it shows.
    const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 1, colorScheme: "dark" };
    const page = await open(t, "", phone);
    const map = page.getByRole("img", { name: "Heatmap of Head 5.3" });
    await map.waitFor({ state: "attached" });
    const head = await map.boundingBox();
    assert.ok(head.x >= 0 && head.x + head.width <= 390, JSON.stringify(head));
    await picture(page, "phone");
    // A finger that stays on a cell shows what a pointer over it would; two fingers zoom into a heatmap.
    await press(page.getByRole("button", { name: "Laboratory", exact: true }));
    const weights = page.getByRole("img", { name: "Heatmap of Weights" });
    await weights.waitFor({ state: "attached" });
    // The controls around it move it until they have their numbers.
    const { x, y, width, height } = await settled(weights);
    const [left, top] = [x + width / 2, y + height / 2];
    const session = await page.context().newCDPSession(page);
    const touch = async (type, ...points) => {
        await session.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
        await page.waitForTimeout(120);
    };
    const numbers = page.getByText(/score .*weight/).first();
    for (const [i, aside] of [0, 30, 30].entries()) {
        await touch("touchStart", [left + aside, top]);
        await numbers.waitFor({ state: "attached" });
        await page.waitForTimeout(1200);
        assert.equal(await numbers.count(), 1, `finger ${i} rests, and its numbers stay`);
        if (i === 0) await picture(page, "phone-finger");
        await touch("touchEnd");
        await numbers.waitFor({ state: "detached" });
    }
    await touch("touchStart", [left - 10, top], [left + 10, top]);
    for (const apart of [15, 25, 40, 60]) await touch("touchMove", [left - apart, top], [left + apart, top]);
    await touch("touchEnd");
    await picture(page, "phone-zoomed");
    await page.waitForFunction(() => JSON.parse(localStorage.getItem("last.regard.json")).laboratory.view.zoom > 1.5);

    const menu = await page.getByRole("button", { name: "Menu", exact: true }).boundingBox();
    for (const room of ["Laboratory", "Walkthrough", "Stage"]) {
        const tab = await page.getByRole("button", { name: room, exact: true }).first().boundingBox();
        assert.ok(tab.x >= 0 && tab.x + tab.width <= menu.x, room);
        await page.touchscreen.tap(tab.x + tab.width / 2, tab.y + tab.height / 2);
        await page.waitForTimeout(400);
        await picture(page, `phone-${room.toLowerCase()}`);
    }
    await map.waitFor({ state: "attached" });
    assert.deepEqual(own(page.complaints), []);
});

test("an example embedded in another page shows nothing around it", async (t) => {
    const page = await open(t, "#room=walkthrough&example=the-cat-sat&embed", { viewport: { width: 720, height: 480 } });
    await page.getByRole("img", { name: "Heatmap of Tokens X" }).waitFor({ state: "attached" });
    assert.equal(await page.getByRole("button", { name: "Menu", exact: true }).count(), 0);
    await picture(page, "embedded");
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    assert.deepEqual(own(page.complaints), []);
});

test("the frame of a notebook shows the attention that comes with it, without a network", async (t) => {
    const made = mkdtempSync(join(tmpdir(), "regard-"));
    t.after(() => rmSync(made, { recursive: true }));
    regard("trace", "story", "--text", "Mia gave Tom the ball.", "--keep", "attentions", "--output", join(made, "attention.npz"));
    const built = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "page");
    const names = ["index.html", "page.js", "system.js", "worker.js", "program/regard.js", "program/regard_bg.wasm"];
    const buffers = [readFileSync(join(made, "attention.npz")), ...names.map((name) => gzipSync(readFileSync(join(built, name)), { level: 1 }))];
    const notebook = '<!doctype html><title>A notebook</title><body style="margin: 0; color-scheme: dark"><p id="above">What stands above</p><div id="below"></div></body>';
    const context = await browser.newContext({ viewport: { width: 900, height: 700 }, serviceWorkers: "block" });
    t.after(() => context.close());
    const page = await context.newPage();
    const complaints = [];
    page.on("console", (message) => ["error", "warning"].includes(message.type()) && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    // The notebook has its own module and what its kernel answers. Any other request is an error.
    const answers = new Map([
        ["", { body: notebook, contentType: "text/html" }],
        ["widget.js", { path: join(root, "python/regard/_widget.js"), contentType: "text/javascript" }],
        ...buffers.map((body, i) => [`buffers/${i}`, { body }]),
    ]);
    await page.route("**/*", (route) => {
        const answer = answers.get(route.request().url().slice(`${origin}notebook/`.length));
        return answer ? route.fulfill(answer) : route.abort();
    });
    await page.goto(`${origin}notebook/`);
    await page.evaluate(async (names) => {
        const { default: widget } = await import("./widget.js");
        const heard = new Set();
        const model = {
            on: (_, call) => heard.add(call),
            off: (_, call) => heard.delete(call),
            send: async () => {
                const fetched = [null, ...names].map(async (_, i) => new DataView(await (await fetch(`buffers/${i}`)).arrayBuffer()));
                const buffers = await Promise.all(fetched);
                heard.forEach((call) => call(names, buffers));
            },
        };
        globalThis.clean = await widget.render({ model, el: document.getElementById("below") });
    }, names);
    const frame = page.frameLocator("iframe");
    const last = frame.locator("#mirror").getByRole("button", { name: /^head 3\.3/ });
    await last.waitFor({ state: "attached" });
    await page.waitForTimeout(1000);
    await picture(page, "notebook");
    assert.ok(await page.locator("#above").isVisible());
    assert.equal(await frame.getByRole("alert").count(), 0);
    assert.equal(await frame.locator("#mirror").getByText(/was not opened/).count(), 0);
    assert.deepEqual(await color(page, 850, 300), [20, 22, 27], "the notebook's theme");
    await page.setViewportSize({ width: 420, height: 700 });
    await press(last);
    await frame.locator("#mirror").getByRole("img", { name: /^Heatmap/ }).waitFor({ state: "attached" });
    await page.waitForTimeout(1000);
    await picture(page, "notebook-narrow");
    assert.deepEqual(own(complaints), []);
});

test("the keyboard alone reaches the controls", async (t) => {
    const page = await open(t, "#room=laboratory");
    const focused = () => page.evaluate(() => {
        const id = document.getElementById("window").getAttribute("aria-activedescendant");
        return id && document.getElementById(id).getAttribute("aria-label");
    });
    const reached = new Set();
    for (let i = 0; i < 40 && !reached.has("Causal"); i++) {
        const before = await focused();
        await page.keyboard.press("Tab");
        for (let wait = 0; wait < 40 && (await focused()) === before; wait++) await page.waitForTimeout(25);
        reached.add(await focused());
    }
    assert.ok(reached.has("Causal"), [...reached].join(", "));
    const causal = page.getByRole("checkbox", { name: "Causal", exact: true });
    const before = await causal.getAttribute("aria-checked");
    await page.keyboard.press("Space");
    await page.waitForFunction((old) => document.querySelector('[aria-label="Causal"]').getAttribute("aria-checked") !== old, before);
    await page.keyboard.press("Control+K");
    await page.getByRole("textbox").first().waitFor({ state: "attached" });
    assert.deepEqual(own(page.complaints), []);
});

/** The colour of the page at a place. */
async function color(page, x, y) {
    const shot = (await page.screenshot({ clip: { x, y, width: 1, height: 1 } })).toString("base64");
    return page.evaluate(async (shot) => {
        const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${shot}`)).blob());
        const canvas = new OffscreenCanvas(1, 1).getContext("2d");
        canvas.drawImage(image, 0, 0);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }, shot);
}

test("a screen with more pixels shows the same, and motion can be switched off", async (t) => {
    const cells = async (page) => {
        const map = page.getByRole("img", { name: "Heatmap of Weights" });
        await map.waitFor({ state: "attached" });
        const { x, y, width, height } = await settled(map);
        const colors = [];
        for (const part of [0.02, 0.08, 0.22, 0.68, 0.98]) colors.push(await color(page, Math.round(x + part * width), Math.round(y + part * height)));
        assert.deepEqual(own(page.complaints), []);
        return { size: [width, height], colors };
    };
    // Playwright's own emulation of such a screen tells the page of fewer pixels than there are.
    const dense = await launch("--force-device-scale-factor=2", "--window-size=1280,900");
    t.after(() => dense.close());
    const page = await open(t, "#room=laboratory", { from: dense, viewport: null, reducedMotion: "reduce" });
    const [ratio, width, height] = await page.evaluate(() => [devicePixelRatio, innerWidth, innerHeight]);
    assert.equal(ratio, 2);
    const two = await cells(page);
    assert.ok(new Set(two.colors.map(String)).size > 2, String(two.colors));
    const one = await cells(await open(t, "#room=laboratory", { viewport: { width, height } }));
    assert.deepEqual(one.size, two.size);
    // The middle of a pixel lies elsewhere in its cell: the last digit of a colour may round to its neighbour.
    const differences = one.colors.flat().map((channel, i) => Math.abs(channel - two.colors.flat()[i]));
    assert.ok(Math.max(...differences) <= 1, `${JSON.stringify(one.colors)} ${JSON.stringify(two.colors)}`);
});

test("the theme follows the browser's", async (t) => {
    const ground = async (colorScheme) => {
        const page = await open(t, "", { colorScheme });
        await page.waitForTimeout(300);
        await picture(page, colorScheme);
        return color(page, 640, 780);
    };
    assert.deepEqual(await ground("dark"), [20, 22, 27]);
    assert.deepEqual(await ground("light"), [243, 244, 247]);
});

test("the page works without a network after the first load", async (t) => {
    const page = await open(t, "", { serviceWorkers: "allow" });
    await page.evaluate(() => navigator.serviceWorker.ready);
    await page.waitForFunction(() => navigator.serviceWorker.controller);
    await page.context().setOffline(true);
    await page.reload();
    await page.getByRole("img", { name: "Heatmap of Head 5.3" }).waitFor({ state: "attached" });
    await press(page.getByRole("button", { name: "Stage", exact: true }));
    await page.getByRole("button", { name: /Mary: 99/ }).waitFor({ state: "attached" });
    assert.deepEqual(own(page.complaints), []);
});

const LACKS = [
    ["WebGL", () => { HTMLCanvasElement.prototype.getContext = () => null; }],
    ["vectors in WebAssembly (simd128)", () => { WebAssembly.validate = () => false; }],
];
for (const [name, script] of LACKS) {
    test(`a browser without ${name} is told so`, async (t) => {
        const context = await browser.newContext({ serviceWorkers: "block" });
        t.after(() => context.close());
        const page = await context.newPage();
        await page.addInitScript(script);
        await page.goto(origin);
        await page.getByRole("alert").getByText(`This browser offers no ${name}`).waitFor();
        await picture(page, `without ${name}`);
    });
}
