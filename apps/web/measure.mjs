// Measures the page in headless Chromium, served from the loopback: `node measure.mjs`, after `node build.mjs`.
//
// Chromium draws with SwiftShader here, in software: a frame takes longer than on any graphics card.

import { chromium } from "playwright-core";

import { serve } from "./serve.mjs";

const server = await serve();
const origin = `http://127.0.0.1:${server.address().port}/`;
const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--enable-unsafe-swiftshader", "--use-angle=swiftshader"],
});

/** The milliseconds, sorted. */
function report(name, times) {
    const sorted = times.toSorted((a, b) => a - b).map((time) => Math.round(time));
    console.log(`${name}: median ${sorted[sorted.length >> 1]} ms of ${sorted.join(", ")}`);
}

async function open(address) {
    const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
    await page.goto(origin + address);
    await page.waitForFunction(() => document.body.classList.contains("drawn"));
    return page;
}

/** Sets a control to each value in turn, and measures until a text that begins with `start` changes. */
const moves = (page, role, name, values, start) => page.getByRole(role, { name, exact: true }).first().evaluate(async (input, [values, start]) => {
    const shown = () => [...document.querySelectorAll("#mirror [data-role]")]
        .map((each) => each.getAttribute("aria-label") ?? each.textContent)
        .filter((text) => text.match(start)).join();
    const times = [];
    for (const value of values) {
        const [before, begin] = [shown(), performance.now()];
        input.value = value;
        input.dispatchEvent(new Event("input", { bubbles: true }));
        // The text may come out the same, with the same time in it: that move tells nothing.
        while (shown() === before && performance.now() - begin < 1000) await new Promise((done) => setTimeout(done, 1));
        if (shown() !== before) times.push(performance.now() - begin);
        await new Promise((done) => setTimeout(done, 300));
    }
    return times;
}, [values, start]);

const first = [];
for (let i = 0; i < 5; i++) {
    const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
    await page.goto(origin, { waitUntil: "commit" });
    first.push(await page.waitForFunction(() => document.querySelector('#mirror [aria-label^="Heatmap"]') && performance.now()).then((time) => time.jsonValue()));
    await page.context().close();
}
report("navigation to the first heatmap", first);

// A slow network: 1.6 Mbit/s, with 100 ms for a round trip, and files compressed by gzip.
const slow = await serve(0, true);
const [window_, heatmap] = [[], []];
for (let i = 0; i < 3; i++) {
    const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 }, serviceWorkers: "block" })).newPage();
    const session = await page.context().newCDPSession(page);
    await session.send("Network.emulateNetworkConditions", { offline: false, latency: 100, downloadThroughput: 200_000, uploadThroughput: 200_000 });
    await page.goto(`http://127.0.0.1:${slow.address().port}/`, { waitUntil: "commit" });
    const after = async (seen) => (await page.waitForFunction(seen, null, { timeout: 120_000 })).jsonValue();
    window_.push(await after(() => performance.getEntriesByName("drawn")[0]?.startTime));
    heatmap.push(await after(() => document.querySelector('#mirror [aria-label^="Heatmap"]') && performance.now()));
    await page.context().close();
}
slow.close();
report("1.6 Mbit/s: navigation to the window", window_);
report("1.6 Mbit/s: navigation to the first heatmap", heatmap);

const laboratory = await open("#room=laboratory");
await moves(laboratory, "spinbutton", "Tokens", [1024], "^Weights in");
await laboratory.waitForTimeout(2000);
report("laboratory, n = 1024, d = 64, temperature moved", await moves(laboratory, "slider", "Temperature as a power of ten", [0.1, 0.2, 0.3, -0.1, -0.2, 0.4, 0.5], "^Weights in"));
report("laboratory, n = 1024, d = 64, sink strength moved", await moves(laboratory, "slider", "Sink strength", [1, 2, 3, 4, 5, 6, 7], "^Weights in"));

const story = await open("?model=story");
await story.waitForTimeout(2000);
const words = " Lily and Max had a red ball".split(" ").slice(1);
const texts = words.map((_, i) => `Mary and John went to the store. ${words.slice(0, i + 1).join(" ")}`);
report("story, a word typed", await moves(story, "textbox", "Text", texts, ": (< )?[0-9.]+ %$"));

await browser.close();
server.close();
