"""The emulated tokenizer: four bytes of UTF-8 make a token, both ways.

A text of n bytes has ceil(n/4) tokens, at least 1, and every word of the vocabulary has exactly
four bytes. So a prompt of s tokens followed by n emitted words has s + n tokens, whatever the
prompt: a request that is prefilled again with the text so far weighs what it weighed.
"""

import zlib

BYTES_PER_TOKEN = 4
OTHER_IDS_FROM = 1000
OTHER_IDS = 120_000

_THREE_LETTERS = (
    " the and for are but not you all any can had her was one our out day get has him his how man"
    " new now old see two way who boy did its let put say she too use air arm art ask bad bag bar"
    " bed big bit box bus buy car cat cup cut dog dry ear eat egg end eye far few fly fun hat hot"
    " ice ink job key law leg low map mix mud net oak oil owl pan pay pen pie pig pot red row run"
    " sea sky sun tea ten tie top toy try van war wet win yes zoo"
)
_OTHERS = ("🙂", " né", " ça", " 中", " 語")
WORDS: tuple[str, ...] = (
    *(_THREE_LETTERS[i : i + 4] for i in range(0, len(_THREE_LETTERS), 4)),
    *_OTHERS,
)
"""The vocabulary: token id i is ``WORDS[i]``; several words hold characters of many bytes."""

_ID_OF = {word.encode(): i for i, word in enumerate(WORDS)}


def count_tokens(text: str) -> int:
    """Tokens of a text, >= 1."""
    return max(1, -(-len(text.encode()) // BYTES_PER_TOKEN))


def token_ids(text: str) -> list[int]:
    """Token ids of a text; what is no word of the vocabulary gets an id above all words'."""
    data = text.encode()
    slices = (data[i : i + BYTES_PER_TOKEN] for i in range(0, len(data), BYTES_PER_TOKEN))
    return [_ID_OF.get(piece, OTHER_IDS_FROM + zlib.crc32(piece) % OTHER_IDS) for piece in slices]


def detokenize(ids: list[int]) -> str:
    """Text of vocabulary ids."""
    return "".join(WORDS[i] for i in ids)
