"""Writes smollm3.gguf once more, as llama.cpp's gguf-split divides a file: split-00001-of-00003.gguf and so on. The first part has
the metadata.

    pip install gguf
    python split.py
"""

from pathlib import Path

from gguf import GGUFReader, GGUFValueType, GGUFWriter

HERE = Path(__file__).resolve().parent
PARTS = 3


def main():
    reader = GGUFReader(HERE / "smollm3.gguf")
    tensors = reader.tensors
    size = -(-len(tensors) // PARTS)
    for part in range(PARTS):
        writer = GGUFWriter(HERE / f"split-{part + 1:05}-of-{PARTS:05}.gguf", arch=None)
        for name, field in reader.fields.items():
            if part > 0 or name.startswith("GGUF."):
                continue
            kind = field.types[0]
            writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)
        writer.add_uint16("split.no", part)
        writer.add_uint16("split.count", PARTS)
        writer.add_int32("split.tensors.count", len(tensors))
        for tensor in tensors[part * size : (part + 1) * size]:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


main()
