// Keeps the page for use without a network. `build.mjs` fills in the version and the files.

const VERSION = "VERSION";
const FILES = ["FILES"];

self.addEventListener("install", (event) => {
    self.skipWaiting();
    event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)));
});

self.addEventListener("activate", (event) => {
    const old = (name) => name !== VERSION;
    const drop = async () => {
        for (const name of (await caches.keys()).filter(old)) await caches.delete(name);
        await self.clients.claim();
    };
    event.waitUntil(drop());
});

// The files of this version come from the cache; anything else from the network.
self.addEventListener("fetch", (event) => {
    if (event.request.method !== "GET" || new URL(event.request.url).origin !== self.location.origin) return;
    const answer = async () => {
        const cache = await caches.open(VERSION);
        const kept = await cache.match(event.request, { ignoreSearch: true });
        return kept ?? (await fetch(event.request));
    };
    event.respondWith(answer());
});
