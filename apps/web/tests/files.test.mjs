// The files that the page holds, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

const told = [];
globalThis.Worker = class {
    postMessage({ put, refused, forgotten }) {
        if (put) told.push(`hold ${put[0]}`);
        if (refused) told.push(`refuse ${refused[0]}`);
        if (forgotten) told.push(`forget ${forgotten[0]}`);
    }
};
const system = await import("../src/system.js");
const nothing = () => {};
Object.assign(system.page, { put: nothing, refuse: nothing, forget: nothing });
system.hire("worker.js", {});

/** What the worker is told when files of these sizes in MiB are dropped. */
async function dropped(sizes) {
    told.length = 0;
    const file = ([path, size]) => [path, { size: size * 2 ** 20, arrayBuffer: async () => new ArrayBuffer(0) }];
    await system.read(Object.entries(sizes).map(file));
    return told.join(", ");
}

test("the files of all drops together fit, and the oldest drop makes room", async () => {
    assert.equal(await dropped({ "m/config.json": 1, "m/model.safetensors": 599 }), "hold m/config.json, hold m/model.safetensors");
    assert.equal(await dropped({ "a.gguf": 900 }), "hold a.gguf", "1500 MiB fit");
    assert.equal(await dropped({ "a.gguf": 930 }), "hold a.gguf", "it takes the place of itself");
    assert.equal(await dropped({ "large.gguf": 1537 }), "refuse large.gguf", "nothing goes for what cannot fit");
    assert.equal(await dropped({ "b.npy": 10 }), "forget m/config.json, forget m/model.safetensors, hold b.npy", "a model goes as a whole");
    assert.equal(await dropped({ "c.npy": 596 }), "hold c.npy", "1536 MiB fit");
    assert.equal(await dropped({ "d.npy": 1 }), "forget a.gguf, hold d.npy");
});
