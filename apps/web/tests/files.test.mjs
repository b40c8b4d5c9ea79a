// The files that the page holds and fetches, without a browser.

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

/** What the program is told while the page fetches a file that a server answers so. */
async function fetching(answer) {
    const asked = [];
    globalThis.fetch = async (address) => {
        asked.push(String(address));
        return answer();
    };
    const told = [];
    await system.fetched("english.gguf", (bytes, file, error) => told.push([bytes, file && [...file], error]));
    assert.deepEqual(asked, [new URL("../src/english.gguf", import.meta.url).href], "the file lies beside system.js");
    return told;
}

test("a file is fetched in parts, and the program learns how much is here", async () => {
    const parts = [[1, 2, 3], [4], [5, 6]];
    const body = () => new Response(new ReadableStream({
        pull: (stream) => parts.length ? stream.enqueue(new Uint8Array(parts.shift())) : stream.close(),
    }));
    const counts = [3, 4, 6].map((bytes) => [bytes, undefined, undefined]);
    assert.deepEqual(await fetching(body), [...counts, [6, [1, 2, 3, 4, 5, 6], undefined]]);
});

test("a file that does not come gives the reason", async () => {
    const refused = (why) => [[0, undefined, `english.gguf could not be fetched: ${why}`]];
    assert.deepEqual(await fetching(() => new Response("not found", { status: 404 })), refused("the server answers 404"));
    const broken = () => { throw new TypeError("no network"); };
    assert.deepEqual(await fetching(broken), refused("no network"));
    const torn = () => new Response(new ReadableStream({ pull: (stream) => stream.error(new Error("the connection is lost")) }));
    assert.deepEqual(await fetching(torn), refused("the connection is lost"));
});
