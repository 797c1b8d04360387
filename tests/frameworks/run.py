"""`make frameworks`: optimum and sentence-transformers as they come, on this provider after `ort_cuda_ep.install()`.

Their models are tiny, random, and exported by optimum itself; results are compared with PyTorch's. Sessions fail where
a compute node would be left to the CPU. On the simulated device there is one line that a GPU does not need: these
packages take a provider of this name to mean that PyTorch has a GPU too (`keep_tensors_on_the_cpu`).
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import ort_cuda_ep
import torch
import transformers
from optimum.onnxruntime import ORTModelForCausalLM, ORTModelForFeatureExtraction
from sentence_transformers import CrossEncoder, SentenceTransformer

PACKAGES = ("onnxruntime", "optimum-onnx", "optimum", "sentence-transformers", "transformers", "torch")
EP, CPU = "CUDAExecutionProvider", "CPUExecutionProvider"
SENTENCES = ["a short line", "another line of words", "words"]
BERT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
GPT = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}


def save_tokenizer(folder: Path) -> Any:
    """One that knows the words of SENTENCES."""
    words = sorted({word for sentence in SENTENCES for word in sentence.split()})
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    tokenizer = transformers.BertTokenizerFast(vocab_file=str(vocabulary), model_max_length=32)
    tokenizer.save_pretrained(folder)
    return tokenizer


def save_model(folder: Path, kind: Any, config: Any) -> Any:
    """A random model of `kind`, saved as its package does it; what optimum exports."""
    torch.manual_seed(0)
    model = kind(config).eval()
    model.save_pretrained(folder)
    return model


def bert(**settings: Any) -> Any:
    return transformers.BertConfig(vocab_size=64, initializer_range=0.2, **BERT, **settings)


def keep_tensors_on_the_cpu(model: Any) -> None:
    """Of a model of optimum's, where there is no GPU that PyTorch could use."""
    if ort_cuda_ep.is_simulated(ort_cuda_ep.devices()[0]):
        model._device = torch.device("cpu")
        model.use_io_binding = False


def close(found: Any, wanted: Any) -> None:
    found, wanted = (np.asarray(value.detach().cpu() if torch.is_tensor(value) else value) for value in (found, wanted))
    assert np.abs(wanted).max() > 0.05, "a reference of nothing"
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2)


def check_optimum_feature_extraction(folder: Path) -> None:
    """Arrays in and out, and moved to the CPU and back."""
    tokenizer, reference = save_tokenizer(folder), save_model(folder, transformers.BertModel, bert())
    with torch.no_grad():
        wanted = reference(**tokenizer(SENTENCES, return_tensors="pt", padding=True)).last_hidden_state
    model = ORTModelForFeatureExtraction.from_pretrained(folder, export=True, provider=EP)
    assert model.providers == [EP, CPU] and model.device == torch.device("cuda:0")
    model.use_io_binding = False
    arrays = tokenizer(SENTENCES, return_tensors="np", padding=True)
    close(model(**arrays).last_hidden_state, wanted)
    for device, provider in (("cpu", CPU), ("cuda", EP)):
        assert model.to(device).providers[0] == provider
        close(model(**arrays).last_hidden_state, wanted)


def check_optimum_bad_options(folder: Path) -> None:
    """They end the session; it is not made on the CPU."""
    save_tokenizer(folder)
    save_model(folder, transformers.BertModel, bert())
    try:
        ORTModelForFeatureExtraction.from_pretrained(
            folder, export=True, provider=EP, provider_options={"gpu_mem_limit": "plenty"}
        )
    except Exception as error:
        assert "gpu_mem_limit='plenty'" in str(error), error
        return
    raise AssertionError("a session was made")


def check_optimum_generation(folder: Path) -> None:
    """Greedy decoding with a cache gives PyTorch's tokens."""
    config = transformers.GPT2Config(vocab_size=64, initializer_range=0.3, **GPT)
    reference = save_model(folder, transformers.GPT2LMHeadModel, config)
    model = ORTModelForCausalLM.from_pretrained(folder, export=True, provider=EP)
    assert model.providers == [EP, CPU]
    keep_tensors_on_the_cpu(model)
    prompt = torch.tensor([[5, 6, 7, 8]], device=model.device)
    settings = {"min_new_tokens": 12, "max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    found = model.generate(prompt, attention_mask=torch.ones_like(prompt), **settings).cpu()
    prompt = prompt.cpu()
    wanted = reference.generate(prompt, attention_mask=torch.ones_like(prompt), **settings)
    assert found.tolist() == wanted.tolist() and len(set(wanted[0].tolist())) > 6, (found, wanted)


def check_sentence_transformers(folder: Path) -> None:
    """The ONNX backend finds the provider by itself."""
    save_tokenizer(folder)
    save_model(folder, transformers.BertModel, bert())
    wanted = SentenceTransformer(str(folder), device="cpu").encode(SENTENCES)
    model = SentenceTransformer(str(folder), backend="onnx")
    (inner,) = (
        part for part in model.modules() if isinstance(getattr(part, "model", None), ORTModelForFeatureExtraction)
    )
    assert inner.model.providers == [EP, CPU]
    keep_tensors_on_the_cpu(inner.model)
    close(model.encode(SENTENCES), wanted)


def check_cross_encoder(folder: Path) -> None:
    """Scores of pairs."""
    save_tokenizer(folder)
    save_model(folder, transformers.BertForSequenceClassification, bert(num_labels=1))
    pairs = [(SENTENCES[0], sentence) for sentence in SENTENCES]
    wanted = CrossEncoder(str(folder), device="cpu").predict(pairs)
    model = CrossEncoder(str(folder), backend="onnx")
    assert model.model.providers == [EP, CPU]
    keep_tensors_on_the_cpu(model.model)
    close(model.predict(pairs), wanted)


def main() -> None:
    print("  ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES))
    path = ort_cuda_ep.install(provider_options={"require_all_compute_nodes": True, "use_tf32": False})
    print(f"{Path(path).name}, {ort_cuda_ep.devices()[0].ep_metadata['name']}")
    failed = 0
    for name, check in [entry for entry in globals().items() if entry[0].startswith("check_")]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(Path(folder))
            except Exception:
                failed += 1
                traceback.print_exc()
                print(f"{name[len('check_') :]}: FAILED")
            else:
                print(f"{name[len('check_') :]}: ok, {check.__doc__.splitlines()[0]}")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
