"""The class that `tokenizer_config.json` names for AutoTokenizer.

For a model of the family Qwen 2, transformers 5 makes Qwen 2's tokenizer of any tokenizer.json, unless the file names a class of its own.
Without `trust_remote_code` this file is not read, and the tokenizer is PreTrainedTokenizerFast.
"""

from transformers import PreTrainedTokenizerFast


class StoryTokenizer(PreTrainedTokenizerFast):
    """The tokenizer as tokenizer.json describes it."""
