#!/usr/bin/env -S node --no-warnings
// Runs a test binary of the target wasm32-wasip1 under Node.js, 18 or later: `cargo test` calls it.
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const args = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args, returnOnExit: true });
const imports = { wasi_snapshot_preview1: wasi.wasiImport };
const { instance } = await WebAssembly.instantiate(await readFile(args[0]), imports);
process.exitCode = wasi.start(instance);
