// Regard's page (apps/web) in a frame below the cell of a notebook, without a server of its own and without a network. A view asks
// the kernel for the page's files, so that the notebook's file holds none of them.

const KINDS = { html: "text/html", js: "text/javascript", wasm: "application/wasm" };

/** A file of the page, which comes compressed with gzip. */
function unzipped(packed) {
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).blob();
}

/** What the kernel answers: the names of the page's files, with the attention and the contents of the files. */
function answer(model) {
    return new Promise((done) => {
        model.on("msg:custom", function arrived(names, buffers) {
            model.off("msg:custom", arrived);
            done([names, buffers]);
        });
        model.send({});
    });
}

/** Gives every file an address of its own, by which the others find it. Returns the addresses by the names. */
async function place(names, [attention, ...packed]) {
    const files = {};
    const add = (name, ...content) => {
        files[name] = URL.createObjectURL(new Blob(content, { type: KINDS[name.split(".").pop()] }));
    };
    const page = {};
    for (const [i, name] of names.entries()) page[name] = await unzipped(packed[i]);
    add("attention.npz", attention);
    add("system.js", page["system.js"]);
    for (const name of names.filter((name) => name.endsWith(".wasm"))) add(name, page[name]);
    for (const name of ["program/regard.js", "worker.js", "page.js"]) {
        const script = await page[name].text();
        add(name, script.replaceAll(/ from ["']\.\.?\/system\.js["']/g, ` from "${files["system.js"]}"`));
    }
    // The page's links to other files are left out: there are none.
    const [above, below] = (await page["index.html"].text()).replaceAll(/<link [^>]*>/g, "").split('<script type="module" src="page.js">');
    const given = `<script>globalThis.regard = ${JSON.stringify({ files, open: "attention.npz" })}</script>`;
    add("index.html", above, given, `<script type="module" src="${files["page.js"]}">`, below);
    return files;
}

/** Shows the page. Where no kernel answers, nothing is shown. */
function render({ model, el }) {
    const placed = answer(model).then((parts) => place(...parts));
    placed.then((files) => {
        const frame = document.createElement("iframe");
        frame.title = "Attention heads";
        frame.style = "display: block; width: 100%; height: 640px; border: 0";
        // The page knows `light` and `dark`, and follows the system where the notebook says something else.
        frame.src = `${files["index.html"]}#embed&room=heads&theme=${getComputedStyle(el).colorScheme}`;
        el.replaceChildren(frame);
    });
    return () => placed.then((files) => Object.values(files).forEach((address) => URL.revokeObjectURL(address)));
}

export default { render };
