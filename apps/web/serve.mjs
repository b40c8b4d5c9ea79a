// Serves the page on the loopback: `node serve.mjs [PORT]`.

import { createReadStream, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const page = join(process.env.CARGO_TARGET_DIR ?? join(here, "../../target"), "page");
const kinds = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
};

/** A server of the page; port 0 takes a free one. With `packed`, it sends files compressed by gzip, as GitHub Pages does. */
export async function serve(port = 0, packed = false) {
    const files = new Map();
    const gzip = (file) => {
        if (!files.has(file)) files.set(file, gzipSync(readFileSync(file)));
        return files.get(file);
    };
    const server = createServer((request, response) => {
        const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
        const file = join(page, path.endsWith("/") ? `${path}index.html` : path);
        const size = file.startsWith(page) && statSync(file, { throwIfNoEntry: false });
        if (!size || !size.isFile()) {
            response.writeHead(404).end("not found");
            return;
        }
        if (packed) {
            const body = gzip(file);
            const type = kinds[extname(file)] ?? "application/octet-stream";
            response.writeHead(200, { "content-type": type, "content-encoding": "gzip", "content-length": body.length });
            response.end(body);
            return;
        }
        response.writeHead(200, { "content-type": kinds[extname(file)] ?? "application/octet-stream", "content-length": size.size });
        createReadStream(file).pipe(response);
    });
    await new Promise((done) => server.listen(port, "127.0.0.1", done));
    return server;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
    const server = await serve(Number(process.argv[2] ?? 8080));
    console.log(`http://127.0.0.1:${server.address().port}/`);
}
