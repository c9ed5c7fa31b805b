"""Files as people have them: what is recognized, what is said, and what is refused.

Every file in `SAME` holds one table, written in another way. All of them are read to the same rows,
by the readers in this process, and by one real process that scores them with one model. Every file
in `REFUSED` gets a sentence.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import random
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from kexpfam import KernelChain, KernelExponentialFamily
from kexpfam.cli.first_look import first_look
from kexpfam.data.dialects import Dialect, decimal_of, separator_of
from kexpfam.data.files import FileRows
from kexpfam.data.first_rows import first_rows
from kexpfam.data.frames import read_table
from kexpfam.estimators.reading import read_rows
from kexpfam.progress import Progress

NAMES = ["size", "weight", "kind"]
GENERATOR = np.random.default_rng(0)
NUMBERS = np.column_stack([GENERATOR.uniform(-5, 5, 40), GENERATOR.uniform(0, 2, 40)]).round(3)
KINDS = GENERATOR.choice(["pike", "perch"], 40).tolist()
RECORDS = [
    dict(zip(NAMES, (*numbers, kind), strict=True))
    for numbers, kind in zip(NUMBERS.tolist(), KINDS, strict=True)
]


def text(separator=",", decimal=".", header="size,weight,kind", index=None, end="\n"):
    """The table as lines."""
    lines = [] if header is None else [header.replace(",", separator)]
    for number, record in enumerate(RECORDS):
        cells = [str(value).replace(".", decimal) for value in record.values()]
        lines.append(separator.join([*(index or "").format(number).split(), *cells]))
    return end.join([*lines, ""])


def zipped(**files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, lines in files.items():
            archive.writestr(f"{name}.csv", lines)
    return content.getvalue()


def zstandard(lines):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(lines.encode())
    return sink.getvalue().to_pybytes()


def parquet():
    sink = io.BytesIO()
    pa.parquet.write_table(pa.Table.from_pylist(RECORDS), sink)
    return sink.getvalue()


# A name, the content, and a word of what is said (nothing, where nothing can be mistaken).
SAME = {
    "comma.csv": (text(), ""),
    "windows.csv": (text(end="\r\n"), ""),
    "semicolon.csv": (text(";"), ""),
    "european.csv": (text(";", ","), ""),
    "excel.csv": ("sep=;\n" + text(";", ","), ""),
    "tab.tsv": (text("\t"), ""),
    "tab_and_comma.txt": (text("\t", ","), ""),
    "pipe.txt": (text("|"), ""),
    "spaces.dat": (text("   "), ""),
    "marked.csv": (text().encode("utf-8-sig"), ""),
    "utf16.csv": (text(";", ",").encode("utf-16"), ""),
    "utf16_unmarked.tsv": (text("\t").encode("utf-16-le"), ""),
    "gzip.csv.gz": (gzip.compress(text().encode()), ""),
    "bzip.csv.bz2": (bz2.compress(text(";", ",").encode()), ""),
    "xz.tsv.xz": (lzma.compress(text("\t").encode()), ""),
    "zstandard.csv.zst": (zstandard(text()), ""),
    "zip.csv.zip": (zipped(rows=text()), ""),
    "really_gzip.csv": (gzip.compress(text().encode()), ""),
    "lines.jsonl": ("".join(json.dumps(one) + "\n" for one in RECORDS), ""),
    "lines.ndjson.gz": (gzip.compress("\n".join(map(json.dumps, RECORDS)).encode()), ""),
    "list.json": (json.dumps(RECORDS, indent=1), ""),
    "table.parquet": (parquet(), ""),
    "pandas_index.csv": (text(header=",size,weight,kind", index="{}"), "as a saved index has"),
    "saved_twice.csv": (text(header="Unnamed: 0,size,weight,kind", index="{}"), "saved index"),
    "row_names.txt": (text(" ", index='"row{}"'), "as a saved index has"),
    "saved_thrice.csv": (text(header=",Unnamed: 0,size,weight,kind", index="{0} {0}"), "index has"),
    "comments.csv": ("# Fish, 2024\n#\n" + text(), ""),
    "numpy.txt": ("# made in May\n# size weight kind\n" + text(" ", header=None), ""),
    "trailing.csv": ("".join(f"{line},\n" for line in text().splitlines()), ""),
    "blank_lines.csv": ("\n\n" + text().replace("\n", "\n\n"), ""),
    "quotes.csv": (text().replace("pike", '"pike"').replace("size", '"size"'), ""),
}

REFUSED = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": ("\n \n", "holds no table"),
    "names.csv": ("a,b\n", "a line of names but no rows"),
    "ragged.csv": ("a,b\n1,2\n3,4\n5\n", "row 3 has 1 cell, but the header names 2 columns"),
    "too_long.csv": ("a,b\n1,2\n3,4\n5,6,7\n", "holds a ',' must stand in quotation marks"),
    "open_quote.csv": ('a,b\n1,2\n3,"4\n5,6\n', "quotation mark in row 2 is not closed"),
    "open_end.csv": ('a,b\n1,2\n3,"4\n', "quotation mark in row 2 is not closed"),
    "page.csv": ("<!DOCTYPE html><html><body>404", "a web page"),
    "renamed.csv": (parquet(), "a Parquet file; let its name end in .parquet"),
    "workbook.csv": (zipped(**{"[Content_Types]": ""}).replace(b".csv", b".xml"), "an Excel workb"),
    "zeros.csv": (bytes(range(256)), "is not text"),
    "cut_off.csv.gz": (gzip.compress(text().encode())[:50], "cannot be unpacked"),
    "two.csv.zip": (zipped(a=text(), b=text()), "holds 2 files"),
    "old.xls": (b"\xd0\xcf\x11\xe0", "Save it as .xlsx or CSV"),
    "stata.dta": (b"x", "Read it with pandas"),
    "whole.parquet.gz": (gzip.compress(parquet()), "Unpack it first"),
    "strange.xyz": (b"x", "is not a type of file that can be read"),
    "broken.jsonl": ('{"a": 1}\n{"a": }\n', "line 2 is not valid JSON"),
    "numbers.jsonl": ("1\n2\n", "line 1 is not an object with names and values"),
    "deep.jsonl": ('{"a":' * 100_000, "nested too deeply"),
    "deep.json": ("[" * 100_000, "nested too deeply"),
    "digits.json": ('[{"a": ' + "7" * 5000 + "}]", "a number has too many digits"),
    "endless.csv": (
        "1234567," * 130_000,
        "no line that ends within its first 1,000,000 characters",
    ),
    "nested.jsonl": ('{"a": {"b": 1}}\n', "holds an object under 'a'"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("messy")
    for name, (content, _) in (SAME | REFUSED).items():
        content = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(content)
    return folder


# -- what is recognized -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAME)
def test_one_table_is_the_same_in_every_file(folder, name):
    read = read_table([folder / name])
    assert list(read.frame.columns) == NAMES
    np.testing.assert_array_equal(read.frame[["size", "weight"]].to_numpy(), NUMBERS)
    assert read.frame["kind"].tolist() == KINDS
    source = FileRows((folder / name,), ("weight", "size"), chunk_rows=15)
    chunks = [chunk.rows for chunk in source.chunks()]
    assert [len(chunk) for chunk in chunks] == [15, 15, 10]
    np.testing.assert_array_equal(np.concatenate(chunks), NUMBERS[:, ::-1])
    said = SAME[name][1]
    assert len(read.doubts) == bool(said)
    assert said in " ".join(read.doubts)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(folder, name):
    for read in (
        lambda: read_table([folder / name]),
        lambda: next(FileRows((folder / name,)).chunks()),
        lambda: first_rows(folder / name),
    ):
        with pytest.raises(ValueError, match=REFUSED[name][1]) as refused:
            read()
        assert name in str(refused.value)


def test_folders_are_no_tables(tmp_path):
    (tmp_path / "rows.csv").mkdir()
    with pytest.raises(ValueError, match=r"is a folder\. Give its files"):
        first_rows(tmp_path / "rows.csv")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-be", "utf-8"])
def test_letters_are_read_in_their_encoding(tmp_path, encoding):
    lines = "größe,art\n" + "1.5,Sägefisch\n2.5,café\n" * 20
    (tmp_path / "rows.csv").write_bytes(lines.encode(encoding))
    read = read_table([tmp_path / "rows.csv"])
    assert list(read.frame.columns) == ["größe", "art"]
    assert set(read.frame["art"]) == {"Sägefisch", "café"}
    is_guess = encoding in ("latin-1", "cp1252")
    assert len(read.doubts) == is_guess
    assert ("is not UTF-8 and was read as Windows-1252" in "".join(read.doubts)) == is_guess
    said = read_table([tmp_path / "rows.csv"], dialect=Dialect(encoding=encoding))
    assert said.doubts == ()
    assert said.frame.equals(read.frame)


def test_a_wrong_encoding_gets_a_sentence(tmp_path):
    (tmp_path / "rows.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"not text in the encoding utf-8.*Give another --encoding"
    ):
        first_rows(tmp_path / "rows.csv", Dialect(encoding="utf-8"))
    with pytest.raises(ValueError, match="encoding 'latin-one' is not known"):
        first_rows(tmp_path / "rows.csv", Dialect(encoding="latin-one"))
    with pytest.raises(ValueError, match="not text in the encoding utf-16"):
        first_rows(tmp_path / "rows.csv", Dialect(encoding="utf-16"))


def test_letters_far_down_are_seen_too(tmp_path):
    """The encoding is recognized in millions of bytes, and not in the first lines alone."""
    lines = "size,kind\n" + "1.25,pike\n" * 200_000 + "2.5,Bärbe\n"
    (tmp_path / "rows.csv").write_bytes(lines.encode("latin-1"))
    read = read_table([tmp_path / "rows.csv"], most_rows=300_000)
    assert read.frame["kind"].iloc[-1] == "Bärbe"


@pytest.mark.parametrize(
    ("lines", "suffix", "separator"),
    [
        ("a\n1,5\n2,5\n", ".csv", ";"),  # one column with decimal commas
        ("a\n1\n2\n", ".csv", ","),
        ("name\nNew York\nSan Jose\n", ".csv", ","),
        ("1 2\n3 4\n", ".txt", " "),
        ("1,5;2,5\n3,5;4,5\n", ".csv", ";"),
        ("a,b\nx;y,1\nz;w,2\n", ".csv", ","),
        ("a|b,c\n1|2,5\n3|4,5\n", ".txt", "|"),
    ],
)
def test_separators(lines, suffix, separator):
    assert separator_of(lines.splitlines(), 0, suffix) == separator


@pytest.mark.parametrize(
    ("cell", "separator", "decimal"),
    [
        ("1,5", ";", ","),
        ("1,234", ";", ","),
        ("1,234", "\t", "."),  # it may be thousands
        ("1,5", "\t", ","),
        ("1.5", ";", "."),
        ("a, b", ";", "."),
    ],
)
def test_decimal_marks(cell, separator, decimal):
    assert decimal_of([["x", "y"], [cell, "2"]], separator) == decimal


def test_the_index_of_pandas_in_parquet_is_left_out(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(RECORDS).sample(frac=1, random_state=0)
    frame.to_parquet(tmp_path / "rows.parquet")
    read = read_table([tmp_path / "rows.parquet"])
    assert list(read.frame.columns) == NAMES
    (doubt,) = read.doubts
    assert "The index that pandas saved in rows.parquet was left out" in doubt


def test_thousands_are_not_taken_for_decimals_in_silence(tmp_path):
    (tmp_path / "rows.tsv").write_text("a\tb\n1,234\t2\n12,345\t3\n")
    read = read_table([tmp_path / "rows.tsv"])
    assert read.frame["a"].tolist() == ["1,234", "12,345"]
    (doubt,) = read.doubts
    assert "'1,234' was not taken for a number. If commas stand before decimals" in doubt
    said = read_table([tmp_path / "rows.tsv"], dialect=Dialect(decimal=","))
    assert said.frame["a"].tolist() == [1.234, 12.345]
    assert said.doubts == ()
    with pytest.raises(ValueError, match=r"row 1, column 'a' holds '1,234'.*give --decimal ','"):
        next(FileRows((tmp_path / "rows.tsv",)).chunks())


WORDS = ["pike", "x;y", "1|2", "tab\there", 'say "hi"', "two\nlines", "ä", "comma, here", "3 m"]


def test_random_tables_come_back_as_they_were_written(tmp_path):
    """Any separator, decimal mark, quotation, encoding and end of line, with any words in cells."""
    choose = random.Random(0)
    for trial in range(60):
        n_rows = choose.choice([3, 10, 200])
        separator = choose.choice(",;\t|")
        decimal = choose.choice(".,") if separator != "," else "."
        table = {
            "size": [choose.randrange(-99_999, 99_999) / 1e4 for _ in range(n_rows)],
            "größe": [choose.randrange(100) / 8 for _ in range(n_rows)],
            "x, y": [choose.choice(WORDS) for _ in range(n_rows)],
            'the "kind"': [choose.choice(WORDS) for _ in range(n_rows)],
        }
        for name in choose.sample(sorted(table), choose.choice([0, 1, 2])):
            del table[name]
        lines = io.StringIO()
        quoting = choose.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        end = choose.choice(["\n", "\r\n"])
        writer = csv.writer(lines, delimiter=separator, quoting=quoting, lineterminator=end)
        writer.writerow(table)
        for row in zip(*table.values(), strict=True):
            numbers = [f"{one:.4f}".replace(".", decimal) for one in row if isinstance(one, float)]
            writer.writerow([*numbers, *(one for one in row if isinstance(one, str))])
        file = tmp_path / f"{trial}.{choose.choice(['csv', 'tsv', 'txt'])}"
        encoding = choose.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"])
        file.write_bytes(lines.getvalue().encode(encoding))
        found = read_table([file]).frame
        assert {name: found[name].tolist() for name in found} == table, trial


# -- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "names", "n_rows", "said"),
    [
        ("1,2.5\n3,4.5\n5,6.5\n", ["column_1", "column_2"], 3, "holds numbers only (1, 2.5)"),
        ("1,NA\n3,4\n", ["column_1", "column_2"], 2, "was taken for a row"),
        ("5.1,a\n4.9,b\n4.7,a\n", ["column_1", "column_2"], 3, "looks like the others"),
        ("a,b\nb,a\na,b\n", ["column_1", "column_2"], 3, "looks like the others"),
        # One thing in it that is no name, and no word over numbers or dates.
        ("5.1,x\n4.9,b\n4.7,c\n", ["column_1", "column_2"], 3, "looks like the others"),
        ("2024-03-10,x\n2024-03-11,b\n", ["column_1", "column_2"], 2, "looks like the others"),
        ("3.5.24,x\n4.5.24,b\n", ["column_1", "column_2"], 2, "looks like the others"),
        ("31,x\n4,b\n75,c\n", ["column_1", "column_2"], 3, "looks like the others"),
        ("day,2020-01-22\na,5\nb,7\n", ["day", "2020-01-22"], 2, ""),
        ("land,2019,2020\nx,31.5,4.5\ny,3.5,4.7\n", ["land", "2019", "2020"], 2, "--no-header"),
        ("day,1.5\n2024-03-10,1.2\n2024-03-11,2\n", ["day", "1.5"], 2, "--no-header"),
        (",2020\n0,1.5\n1,2.5\n2,0.5\n", ["2020"], 3, "with nothing over a saved index"),
        ("country,1990,1991\nA,1,2\nB,3,4\n", ["country", "1990", "1991"], 2, "some are numbers"),
        ("1990\nyes\nno\n", ["1990"], 2, "some are numbers"),
        ("0,1\n0.5,0.25\n0.75,0.1\n", ["0", "1"], 2, "Give --no-header"),
        (",0,1\n0,0.5,0.25\n1,0.75,0.1\n", ["0", "1"], 2, "Give --no-header"),
        ("a,a,b,a\n1,2,3,4\n5,6,7,8\n", ["a", "a.1", "b", "a.2"], 2, "'a' ('a.1'), 'a' ('a.2')"),
        ("a,,c\n1,2,3\n4,5,6\n", ["a", "column_2", "c"], 2, ""),
        (",b\n0.25,1\n0.75,2\n", ["column_1", "b"], 2, ""),  # a measurement without a name
    ],
)
def test_names_and_rows(tmp_path, lines, names, n_rows, said):
    (tmp_path / "rows.csv").write_text(lines)
    read = read_table([tmp_path / "rows.csv"])
    assert list(read.frame.columns) == names
    assert read.n_rows == n_rows
    assert said in " ".join(read.doubts)
    assert bool(read.doubts) == bool(said)


def test_what_is_said_of_the_first_line_holds(tmp_path):
    (tmp_path / "rows.csv").write_text("1,2.5\n3,4.5\n")
    for header, names, n_rows in (
        (True, ["1", "2.5"], 1),
        (False, ["column_1", "column_2"], 2),
    ):
        read = read_table([tmp_path / "rows.csv"], dialect=Dialect(header=header))
        assert (list(read.frame.columns), read.n_rows, read.doubts) == (names, n_rows, ())


def test_the_library_warns_of_what_it_took_for_granted(tmp_path):
    np.savetxt(tmp_path / "rows.csv", NUMBERS, delimiter=",")
    model = KernelExponentialFamily()
    with pytest.warns(UserWarning, match="was taken for a row"):
        read_rows(model, tmp_path / "rows.csv", None, Progress())
    assert list(model.feature_names_in_) == ["column_1", "column_2"]


# -- columns that cannot be used ----------------------------------------------------------------


def test_all_columns_without_numbers_are_named_at_once(tmp_path):
    lines = "size,kind,day,mass,none\n" + "1.5,pike,2024-05-01,2,\n2.5,perch,2024-05-02,,\n" * 20
    (tmp_path / "rows.csv").write_text(lines)
    with pytest.raises(ValueError, match="4 of 5 columns do not hold numbers") as refused:
        next(FileRows((tmp_path / "rows.csv",)).chunks())
    for words in (
        "'kind' holds 'pike' (row 1)",
        "'day' holds dates such as '2024-05-01' (row 1)",
        "'mass' has an empty cell (row 2)",
        "'none' is empty",
        "--exclude kind,day,mass,none",
    ):
        assert words in str(refused.value)
    frame = read_table([tmp_path / "rows.csv"]).frame
    frame.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"'kind' is of type .*'day' is of type") as refused:
        first_look([str(tmp_path / "rows.parquet")], Dialect(), exclude="mass", takes="numbers")
    assert "--exclude kind,day on the command line" in str(refused.value)


def test_a_cell_far_down_is_found_by_row_and_column(tmp_path):
    lines = ["a;b", *["1,5;2"] * 30_000, "1,5;x", "1,5;2"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="row 30001, column 'b' holds 'x', which is not a number"):
        for _ in FileRows((tmp_path / "rows.csv",)).chunks():
            pass
    lines[30_001] = "1,5;"
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="row 30001, column 'b' is missing"):
        for _ in FileRows((tmp_path / "rows.csv",)).chunks():
            pass
    lines[30_001] = "1,5"
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="row 30001 has 1 cell, but the header names 2"):
        read_table([tmp_path / "rows.csv"])


def test_a_chain_names_all_columns_that_it_cannot_take():
    import pandas as pd

    frame = pd.DataFrame(
        {
            "size": NUMBERS[:, 0],
            "day": pd.date_range("2024-01-01", periods=40),
            "note": [f"note {number}" for number in range(40)],
            "none": np.full(40, np.nan),
        }
    )
    with pytest.raises(ValueError, match="3 of 4 columns cannot be used") as refused:
        KernelChain().fit(frame)
    for words in ("'day' holds dates", "'note' looks like free text", "'none' holds no values"):
        assert words in str(refused.value)
    assert "--exclude day,note,none" in str(refused.value)


# -- Excel --------------------------------------------------------------------------------------


def test_a_workbook_is_read_from_its_first_sheet(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(NAMES)
    for record in RECORDS:
        book.active.append(list(record.values()))
    book.create_sheet("notes").append(["nothing", "here"])
    book.save(tmp_path / "rows.xlsx")
    read = read_table([tmp_path / "rows.xlsx"])
    (doubt,) = read.doubts
    assert "has 2 sheets, and the first, 'Sheet', was read" in doubt
    np.testing.assert_array_equal(read.frame[["size", "weight"]].to_numpy(), NUMBERS)
    assert read.frame["kind"].tolist() == KINDS
    chunk = next(FileRows((tmp_path / "rows.xlsx",), ("size", "weight")).chunks())
    np.testing.assert_array_equal(chunk.rows, NUMBERS)
    (tmp_path / "broken.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match="cannot be read as an Excel workbook"):
        first_rows(tmp_path / "broken.xlsx")


def test_what_excel_needs_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "rows.xlsx").write_bytes(b"PK\x03\x04")
    with pytest.raises(ImportError, match=r"pip install 'kexpfam\[excel\]', or save the sheet"):
        first_rows(tmp_path / "rows.xlsx")


# -- in a real process --------------------------------------------------------------------------


def test_commands_read_every_file(run, folder):
    options = "--columns size,weight --estimator family --n-components 16 --base gaussian"
    fixed = "--penalty 1e-3 --noise-scale 0.2 --length-scale 1"
    done = run("fit", "comma.csv", "-o", "model", *options.split(), *fixed.split())
    assert done.code == 0, done.err
    expected = run("score", "model", "comma.csv").out
    assert len(expected.splitlines()) == 41
    for name, (_, said) in SAME.items():
        done = run("score", "model", name)
        assert (done.code, done.out) == (0, expected), name
        assert said in done.err
    for name, (_, complaint) in REFUSED.items():
        done = run("score", "model", name)
        assert done.code == 1
        assert name in done.err
        assert complaint in done.err
    # None of them is taken for a broken model.
    for name in ("nowhere.tsv", "old.xls", "broken.jsonl", "cut_off.csv.gz"):
        done = run("report", name, "-o", "never.html")
        assert done.code == 1
        assert "model" not in done.err
    how = ["--sep", "|", "--decimal", ".", "--encoding", "utf-8", "--header"]
    assert run("score", "model", "pipe.txt", *how).out == expected
    done = run("score", "model", "pipe.txt", "--sep", "comma")
    assert "has no column 'size'" in done.err


def test_what_cannot_be_used_is_refused_before_anything_large_is_imported(folder):
    """One process: the modules that it had imported when it ended tell."""
    code = (
        "import atexit, sys\n"
        "heavy = {'jax', 'sklearn', 'scipy', 'pandas', 'pyarrow'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules))))\n"
        "from kexpfam.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", "comma.csv", "-o", "never", "--estimator", "diffusion"],
        **{"cwd": folder, "capture_output": True, "text": True, "check": False},
    )
    assert done.returncode == 1
    assert "row 1, column 'kind' holds" in done.stderr
    assert done.stdout == "[]\n"
