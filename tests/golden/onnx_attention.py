"""Writes onnx_attention.safetensors and onnx_attention.json: every test case that ONNX has of its Attention operator.

    pip install onnx==1.23.2 ml_dtypes numpy safetensors
    python tests/golden/onnx_attention.py

The cases are ONNX's (Copyright (c) ONNX Project Contributors, Apache-2.0), with its inputs, attributes and expected
outputs as they are. Left out are the `_expanded` ones: the same cases again, for backends without the operator.

A tensor is called `case/input` or `case/out_output`, with ONNX's names. The JSON has each case's opset, attributes,
types and shapes.
"""

import json
import warnings
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases
from safetensors import TensorSpec, serialize_file

DTYPES = {
    np.dtype(np.bool_): "bool",
    np.dtype(np.int64): "int64",
    np.dtype(np.float16): "float16",
    np.dtype(ml_dtypes.bfloat16): "bfloat16",
    np.dtype(np.float32): "float32",
}


def attention_cases():
    warnings.simplefilter("ignore")  # other operators' cases overflow on purpose
    return [case for case in collect_testcases("Attention") if "_expanded" not in case.name]


def tensors_of(case):
    (node,) = case.model.graph.node
    ((inputs, outputs),) = case.data_sets
    names = [name for name in node.input if name] + [f"out_{name}" for name in node.output if name]
    assert len(names) == len(inputs) + len(outputs), case.name
    return {name: np.ascontiguousarray(array) for name, array in zip(names, [*inputs, *outputs])}


def main():
    folder = Path(__file__).parent
    cases, specs, alive = {}, {}, []
    for case in attention_cases():
        tensors = tensors_of(case)
        (node,) = case.model.graph.node
        cases[case.name] = {
            "opset": case.model.opset_import[0].version,
            "attrs": {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute},
            "dtypes": {name: DTYPES[array.dtype] for name, array in tensors.items()},
            "shapes": {name: list(array.shape) for name, array in tensors.items()},
        }
        for name, array in tensors.items():
            alive.append(array)
            specs[f"{case.name}/{name}"] = TensorSpec(
                dtype=DTYPES[array.dtype], shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes
            )
    source = f"ONNX {onnx.__version__}, Copyright (c) ONNX Project Contributors, Apache-2.0"
    serialize_file(specs, folder / "onnx_attention.safetensors", {"source": source})
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in cases.items())
    (folder / "onnx_attention.json").write_text("{\n" + lines + "\n}\n")
    print(f"{len(cases)} cases, {len(specs)} tensors")


if __name__ == "__main__":
    main()
