"""Every format of the published traces is read, with its oddities, whatever the file is called."""

from pathlib import Path

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.traces.read import NO_ARRIVALS, read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def written(directory: Path, text: str | bytes, name: str = "some.file") -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_azure_2023_has_seven_digits_crlf_and_no_final_newline(tmp_path: Path) -> None:
    rows = "2023-11-16 18:17:03.9799600,374,44\r\n2023-11-16 18:17:04.0799601,396,109"
    result = read_trace(written(tmp_path, AZURE.replace("\n", "\r\n") + rows))
    assert result.format == "azure-2023"
    # 4.0799601 - 3.9799600 s, exact to the 100 ns of the file
    assert result.trace.arrival_s.tolist() == [0.0, 0.1000001]
    assert result.trace.prompt_tokens.tolist() == [374, 396]
    assert result.trace.output_tokens.tolist() == [44, 109]
    assert result.trace.prefix_id is None


def test_azure_2024_has_offsets_and_whole_second_rows_without_a_fraction(tmp_path: Path) -> None:
    rows = "2024-05-12 00:00:00.5+00:00,1,2\n2024-05-12 00:00:01+00:00,3,4\n"
    result = read_trace(written(tmp_path, AZURE + rows))
    assert result.format == "azure-2024"
    assert result.trace.arrival_s.tolist() == [0.0, 0.5]


def test_offsets_other_than_utc_are_taken_into_account(tmp_path: Path) -> None:
    rows = "2024-05-12 02:00:00+02:00,1,2\n2024-05-12T00:00:07Z,3,4\n2024-05-11 22:00:09-0200,5,6\n"
    result = read_trace(written(tmp_path, AZURE + rows))
    # all three are UTC: 00:00:00, 00:00:07, 00:00:09
    assert result.trace.arrival_s.tolist() == [0.0, 7.0, 9.0]


def test_extra_and_reordered_columns_are_read_by_name(tmp_path: Path) -> None:
    text = "region,GeneratedTokens,TIMESTAMP,ContextTokens\neu,2,2025-01-01 00:00:00,9\n"
    result = read_trace(written(tmp_path, text))
    assert result.format == "azure"
    assert result.trace.prompt_tokens.tolist() == [9]
    assert result.trace.output_tokens.tolist() == [2]


def test_burstgpt_failures_are_dropped_and_counted_even_in_strict_mode(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,GPT-4,10,0,10,API log\n"
        "45,GPT-4,11,3,14,API log\n"
        "45,GPT-4,12,4,16,API log\n"
    )
    result = read_trace(written(tmp_path, text))
    assert result.format == "burstgpt"
    assert result.trace.arrival_s.tolist() == [0.0, 40.0, 40.0]
    assert result.rows_read == 4
    assert result.dropped == {"failed request (0 output tokens)": 1}


def test_burstgpt_v3_inserts_columns(tmp_path: Path) -> None:
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,"
        'Log Type\n5,1,0.5,"ChatGPT, new",472,18,490,Conversation log\n'
    )
    result = read_trace(written(tmp_path, text))
    assert (result.format, result.trace.prompt_tokens.tolist()) == ("burstgpt", [472])


def test_mooncake_times_are_milliseconds_and_prefixes_are_kept(tmp_path: Path) -> None:
    text = (
        '{"timestamp": 3000, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}\n'
        '{"timestamp": 3000, "input_length": 5, "output_length": 1, "hash_ids": []}\n'
        '{"timestamp": 6001, "input_length": 7, "output_length": 9, "hash_ids": [46]}\n'
    )
    result = read_trace(written(tmp_path, text))
    assert result.format == "mooncake"
    assert result.trace.arrival_s.tolist() == [0.0, 0.0, 3.001]
    assert result.trace.prefix_id is not None
    assert result.trace.prefix_id.tolist() == [46, -1, 46]


def test_qwen_times_are_seconds(tmp_path: Path) -> None:
    row = (
        '{"chat_id": 159, "parent_chat_id": -1, "timestamp": %s, "input_length": 521, '
        '"output_length": 132, "type": "text", "turn": 1, "hash_ids": [1089]}\n'
    )
    result = read_trace(written(tmp_path, row % "61.25" + row % "61.5"))
    assert result.format == "qwen-bailian"
    assert result.trace.arrival_s.tolist() == [0.0, 0.25]


def test_vidur(tmp_path: Path) -> None:
    text = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,374,44\n2.0,396,109\n"
    result = read_trace(written(tmp_path, text))
    assert (result.format, result.trace.arrival_s.tolist()) == ("vidur", [0.0, 1.5])


def test_generic_files_are_read_by_synonyms_and_unit_suffixes(tmp_path: Path) -> None:
    text = "ID;x,Arrival Time MS,Input-Tokens,completion_tokens\na,1500,3,4\nb,2000,5,6.0\n"
    result = read_trace(written(tmp_path, text))
    assert result.format == "generic-csv"
    assert result.trace.arrival_s.tolist() == [0.0, 0.5]
    assert result.trace.output_tokens.tolist() == [4, 6]


def test_columns_named_by_the_user_win_without_regard_to_case(tmp_path: Path) -> None:
    text = '{"In": "7", "Out": 2, "when": "2024-05-12 00:00:00", "prompt_tokens": 99}\n'
    columns = {"prompt_tokens": "IN", "output_tokens": "out", "arrival_s": "When"}
    result = read_trace(written(tmp_path, text), columns=columns)
    assert result.format == "generic-jsonl"
    assert result.trace.prompt_tokens.tolist() == [7]


def test_a_file_without_arrivals_starts_everything_at_zero_and_says_so(tmp_path: Path) -> None:
    result = read_trace(written(tmp_path, "isl,osl\n5,6\n7,8\n"))
    assert result.notes == (NO_ARRIVALS,)
    assert result.trace.arrival_s.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "expected a trace, got an empty file"),
        (b"\n \n", "expected a trace, got an empty file"),
        (AZURE.encode(), ":1: expected at least one row, got none"),
        (b"\xff\xfea\0", ":1: expected text in UTF-8, got text in UTF-16"),
        (b"\0\1\2\3", ":1: expected a trace in CSV, JSON Lines or Parquet, got other bytes"),
        (AZURE.replace(",", ";").encode(), "comma-separated columns, got semicolon-separated"),
        (AZURE.replace(",", "\t").encode(), "comma-separated columns, got tab-separated"),
        (b"a,b\n1,2\n", ":1: expected a column for prompt_tokens (or --columns"),
        (b"version https://git-lfs.github.com/spec/v1\n", "got a Git LFS pointer"),
        (b'[{"prompt_tokens": 1}]\n', "got a JSON array"),
        (b'{\n  "a": 1\n}\n', "got a JSON document over many lines"),
        (b"PAR1 and nothing else", "expected a sound Parquet file"),
    ],
)
def test_files_that_are_no_trace_are_named(tmp_path: Path, text: bytes, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_and_a_missing_file_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got neither"):
        read_trace(tmp_path)
    with pytest.raises(InputError, match="expected a readable file"):
        read_trace(tmp_path / "missing.csv")


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf" + AZURE.encode() + b"2023-11-16 18:17:03,1,2\n"
    assert read_trace(written(tmp_path, text)).format == "azure-2023"


def test_the_real_azure_trace_has_its_published_size(traces_dir: Path) -> None:
    result = read_trace(traces_dir / "AzureLLMInferenceTrace_conv.csv")
    assert (result.format, len(result.trace), result.dropped) == ("azure-2023", 19_366, {})
    # Last stamp 19:14:08.4025270 minus first 18:15:46.6805900.
    assert result.trace.span_s == pytest.approx(3501.721937, abs=1e-9)


def test_the_real_mooncake_trace_is_read_whole(traces_dir: Path) -> None:
    result = read_trace(traces_dir / "mooncake_synthetic.jsonl")
    assert (result.format, len(result.trace), result.dropped) == ("mooncake", 3_993, {})
    assert result.trace.prefix_id is not None
    assert int(np.min(result.trace.prefix_id)) == 0
