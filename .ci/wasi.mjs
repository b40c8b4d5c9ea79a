#!/usr/bin/env -S node --no-warnings
// Runs a test binary of the target wasm32-wasip1 under Node.js, 18 or later: `cargo test` calls it.
//
// proptest reads no environment variables on wasm: it asks the system for its seed. The system is this file, whose random
// bytes follow from PROPTEST_RNG_SEED, so that property tests are repeatable here too. Every request gets the same bytes:
// a test then does not depend on the tests that ran before it. The number of cases is always proptest's default.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { env } from 'node:process';
import { WASI } from 'node:wasi';

const args = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args, env, returnOnExit: true });
const imports = { wasi_snapshot_preview1: { ...wasi.wasiImport } };

const seed = env.PROPTEST_RNG_SEED;
if (seed !== undefined) {
    imports.wasi_snapshot_preview1.random_get = (pointer, length) => {
        const bytes = createHash('shake256', { outputLength: length }).update(seed).digest();
        new Uint8Array(instance.exports.memory.buffer).set(bytes, pointer);
        return 0;
    };
}

const { instance } = await WebAssembly.instantiate(await readFile(args[0]), imports);
process.exitCode = wasi.start(instance);
