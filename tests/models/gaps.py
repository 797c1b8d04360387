"""What of the models is not as it should be, and why. A key is a file's name, or "name:float16" for one form.

Strict: a gap that has gone fails the test, so that this list only ever tells the truth.
"""

# Run in float32 alone: the order of a detector's scores does not survive fewer bits, here or on the CPU.
FLOAT32_ONLY = {"faster_rcnn.torchscript", "retinanet.torchscript"}
# ONNX has no sequences of bfloat16.
NO_BFLOAT16 = {"dlrm.dynamo"}

# Operators that run elsewhere node by node because no kernel of ours takes them: sequences, which a plug-in cannot
# make, and a Loop that carries one. Compiled regions run this one.
ELSEWHERE: dict[str, set[str]] = {
    "dlrm.dynamo": {"SequenceEmpty", "SequenceInsert", "Loop", "ConcatFromSequence"},
}

# Copies between nodes: up to the device and down from it. Those up are sizes with which the model goes on to calculate
# on the device: a cache's length added to positions, a mask's length times rows, the root of a head's size. Shape's
# result is in host memory, and the host has one kernel definition, so one kind of memory, for all nodes of an operator
# with the same types: neither a second Shape nor an Add that reads one number there can be offered beside the first.
COPIES: dict[str, tuple[int, int]] = {
    "bart_decoder.dynamo": (1, 0),
    "bart_decoder.torchscript": (2, 0),
    "bart_encoder.torchscript": (1, 0),
    "bert.dynamic": (1, 0),
    "bert.qdq": (1, 0),
    "bert.qoperator": (1, 0),
    "bert.torchscript": (1, 0),
    "clip_text.torchscript": (1, 0),
    "deberta.torchscript": (6, 0),
    "distilbert.torchscript": (1, 0),
    "dlrm.dynamo": (6, 0),
    "dlrm.torchscript": (4, 0),
    "gemma2.dynamo": (1, 0),
    "gemma2.torchscript": (2, 0),
    "glm4.dynamo": (1, 0),
    "gpt2.dynamo": (1, 0),
    "gpt2.torchscript": (2, 0),
    "gpt_neox.dynamo": (1, 0),
    "gpt_neox.torchscript": (2, 0),
    "llama.dynamo": (1, 0),
    "llama.torchscript": (2, 0),
    "mixtral.dynamo": (1, 0),
    "mixtral.torchscript": (2, 0),
    "modernbert.torchscript": (1, 0),
    "qwen3.dynamo": (1, 0),
    "qwen3.torchscript": (2, 0),
    "swin.torchscript": (2, 0),
    "t5_decoder.dynamo": (1, 0),
    "t5_decoder.torchscript": (1, 0),
    "t5_encoder.torchscript": (1, 0),
    "unet_group_norm.torchscript": (1, 0),
    "unet_instance_norm.torchscript": (1, 0),
    "vit.torchscript": (2, 0),
    "whisper_decoder.dynamo": (1, 0),
    "whisper_decoder.torchscript": (1, 0),
}
