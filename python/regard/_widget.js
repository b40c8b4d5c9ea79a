// A frame with Regard's page (apps/web) below the cell of a notebook. The page's files come with the widget, so that it needs neither
// a server nor a network: each becomes an address of its own, by which the others find it.

const KINDS = { js: "text/javascript", wasm: "application/wasm" };

/** A file of the page, which came compressed with gzip. */
async function unzipped(packed) {
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).blob();
}

async function render({ model, el }) {
    const page = {};
    for (const [name, packed] of Object.entries(model.get("page"))) page[name] = await unzipped(packed);
    const files = {};
    const add = (name, ...content) => {
        files[name] = URL.createObjectURL(new Blob(content, { type: KINDS[name.split(".").pop()] }));
    };
    /** A module that imports system.js by its new address. */
    const linked = async (name) => (await page[name].text()).replaceAll(/(["'])\.\.?\/system\.js\1/g, JSON.stringify(files["system.js"]));

    add("attention.npz", model.get("attention"));
    for (const name of Object.keys(page).filter((name) => name.endsWith(".wasm"))) add(name, page[name]);
    add("system.js", page["system.js"]);
    add("simd/regard.js", await linked("simd/regard.js"));
    /** What system.js finds. */
    const given = () => `globalThis.regard = ${JSON.stringify({ files, link: "embed", open: [["attention.npz", files["attention.npz"]]] })};\n`;
    add("given.js", given());
    // A module's imports run before it, in their order.
    add("worker.js", `import ${JSON.stringify(files["given.js"])};\n`, await linked("worker.js"));
    add("page.js", await linked("page.js"));

    const frame = document.createElement("iframe");
    frame.title = "Attention heads";
    frame.style = "display: block; width: 100%; height: 640px; border: 0";
    // The document's links would ask the notebook's server.
    const text = (await page["index.html"].text()).replaceAll(/<link [^>]*>/g, "");
    const [above, below] = text.split('<script type="module" src="page.js"></script>');
    frame.srcdoc = `${above}<script>${given()}</script><script type="module" src="${files["page.js"]}"></script>${below}`;
    el.append(frame);
    return () => {
        frame.remove();
        for (const address of Object.values(files)) URL.revokeObjectURL(address);
    };
}

export default { render };
