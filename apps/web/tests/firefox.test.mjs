// The page in Firefox, which Playwright's own protocol does not drive here: WebDriver BiDi does. Firefox has no WebGL without a
// display, so it runs in a virtual one.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { accessSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import puppeteer from "puppeteer-core";

import { serve } from "../serve.mjs";

const pictures = process.env.PICTURES;

/** The path of a program, or null. */
function which(name) {
    for (const folder of (process.env.PATH ?? "").split(":")) {
        try {
            accessSync(join(folder, name));
            return join(folder, name);
        } catch {
            // it may be in the next folder
        }
    }
    return null;
}

const [firefox, xvfb] = [process.env.FIREFOX ?? which("firefox-esr") ?? which("firefox"), which("Xvfb")];
const missing = (!firefox && "firefox-esr") || (!xvfb && "xvfb");

/** Starts a virtual display. Returns its name. */
async function display(t) {
    const server = spawn(xvfb, ["-displayfd", "3", "-screen", "0", "1280x900x24"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
    t.after(() => server.kill());
    // The pipe stays open: the server ends if it cannot write the line to its end.
    const number = await new Promise((done, fail) => {
        let line = "";
        server.stdio[3].on("data", (text) => {
            line += text;
            if (line.endsWith("\n")) done(line.trim());
        });
        server.on("exit", () => fail(new Error("Xvfb has not started")));
    });
    return `:${number}`;
}

test("Firefox loads the page and draws a heatmap", { skip: missing && `NOT RUN: ${missing} is not installed` }, async (t) => {
    const server = await serve();
    t.after(() => server.close());
    const browser = await puppeteer.launch({
        browser: "firefox",
        executablePath: firefox,
        headless: false,
        timeout: 120_000,
        extraPrefsFirefox: { "webgl.force-enabled": true },
        env: { ...process.env, DISPLAY: await display(t), LIBGL_ALWAYS_SOFTWARE: "1" },
    });
    t.after(() => browser.close());
    const page = await browser.newPage();
    await page.setViewport({ width: 1200, height: 760 });
    const complaints = [];
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const map = await page.waitForSelector('#mirror [aria-label^="Heatmap of Head 5.3"]', { timeout: 120_000 });
    const { x, y, width, height } = await map.evaluate((element) => {
        const { x, y, width, height } = element.getBoundingClientRect();
        return { x, y, width, height };
    });
    await page.waitForFunction(() => document.body.classList.contains("drawn"));
    // The cells of the heatmap have colours; the ground, the text and the hatching are grey. How many greys there are depends on
    // whether the map's edges fall between pixels. The browser may still be painting.
    let colors = 0;
    for (let attempt = 0; attempt < 60 && colors < 5; attempt += 1) {
        await new Promise((done) => setTimeout(done, 1000));
        const shot = await page.screenshot({ encoding: "base64", clip: { x, y, width, height } });
        colors = await page.evaluate(async (shot) => {
            const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${shot}`)).blob());
            const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
            canvas.drawImage(image, 0, 0);
            const { data } = canvas.getImageData(0, 0, image.width, image.height);
            const pixels = Array.from({ length: data.length / 4 }, (_, i) => data.slice(4 * i, 4 * i + 3));
            return new Set(pixels.filter((pixel) => Math.max(...pixel) - Math.min(...pixel) > 20).map(String)).size;
        }, shot);
    }
    if (pictures) {
        mkdirSync(pictures, { recursive: true });
        await page.screenshot({ path: join(pictures, "firefox.png") });
    }
    t.diagnostic(`${colors} colours`);
    assert.ok(colors >= 5, `${colors} colours`);
    // The model runs, and the page computes what Chromium's does: its tests compare the numbers.
    await page.goto(`http://127.0.0.1:${server.address().port}/?model=story`);
    await page.waitForSelector('#mirror [aria-label^="Mary: 98"]', { timeout: 120_000 });
    assert.deepEqual(complaints, []);
});
