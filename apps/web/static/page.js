// Loads the window: the program, what the address asks for, and the files that are dropped.

import * as system from "./system.js";

/**
 * What a page without a server is given: `files`, the addresses of its files by their names, and `open`, the name of the one that it
 * opens. `python/regard/_widget.js` makes such a page for a notebook.
 */
const given = globalThis.regard;

/** The address of a file of the page. */
const place = (name) => given?.files[name] ?? new URL(name, import.meta.url).href;

/** A function with an instruction of simd128. Relaxed SIMD is never used: its results differ between browsers. */
const SIMD = new Uint8Array([
    0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
]);

/** Says why there is no window. */
function fail(heading, text) {
    const box = document.getElementById("failure");
    box.replaceChildren(
        Object.assign(document.createElement("h1"), { textContent: heading }),
        Object.assign(document.createElement("p"), { textContent: text }),
    );
    box.hidden = false;
    document.getElementById("skeleton").hidden = true;
}

/** What the browser lacks, if anything. */
function lacks() {
    if (typeof WebAssembly !== "object") return "WebAssembly";
    if (!WebAssembly.validate(SIMD)) return "vectors in WebAssembly (simd128)";
    const canvas = document.createElement("canvas");
    const drawing = canvas.getContext("webgl2") ?? canvas.getContext("webgl");
    drawing?.getExtension("WEBGL_lose_context")?.loseContext();
    if (!drawing) return "WebGL";
    return null;
}

/** The keys of the query and of the fragment, as JSON. */
function address() {
    return JSON.stringify(Object.fromEntries([
        ...new URLSearchParams(location.search),
        ...new URLSearchParams(location.hash.slice(1)),
    ]));
}

/** The bytes of the program. `build.mjs` fills them in. */
const BYTES = 1;

/** Fetches the program, and shows how much of it is here. */
async function fetched(address) {
    const response = await fetch(address);
    const reader = response.clone().body.getReader();
    const bar = document.querySelector("#skeleton progress");
    bar.max = BYTES;
    const count = async () => {
        for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) bar.value += value.length;
    };
    count().catch(() => {}); // `compileStreaming` tells why
    return response;
}

async function main() {
    const missing = lacks();
    if (missing) {
        fail(
            `This browser offers no ${missing}`,
            `Regard draws with WebGL and computes with the vectors of WebAssembly, and this browser has no ${missing}, or it is ` +
                "switched off. All browsers since 2023 have them. The program for the desktop needs no browser.",
        );
        return;
    }
    const [script, wasm] = ["regard.js", "regard_bg.wasm"].map((name) => place(`program/${name}`));
    const [program, module] = await Promise.all([import(script), WebAssembly.compileStreaming(fetched(wasm))]);
    await program.default({ module_or_path: module });
    system.hire(place("worker.js"), { script, module });
    const { put, refuse, forget, open, act, work_on, take } = program;
    Object.assign(system.page, { put, refuse, forget, open, act, work: work_on, take });
    await program.start(document.getElementById("window"), address());

    system.listen(document.getElementById("mirror"));
    const show = async (files) => {
        const path = await system.read(files);
        if (path) program.open(path);
    };
    window.addEventListener("drop", async (event) => {
        event.preventDefault();
        show(await system.dropped(event.dataTransfer));
    }, true);
    window.addEventListener("dragover", (event) => event.preventDefault());
    if (given) {
        const file = await fetch(place(given.open));
        show([[given.open, await file.blob()]]);
        return;
    }
    // Another link of this page, for instance from the course page around it.
    window.addEventListener("hashchange", () => location.reload());
    // The session is in the address only after a change: `replaceState` makes no such event.
    if ("serviceWorker" in navigator) navigator.serviceWorker.register("sw.js");
}

main().catch((error) => {
    console.error(error);
    fail("The window could not be opened", String(error?.message ?? error));
});
