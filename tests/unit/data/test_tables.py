"""Tables as people have them: any delimiter, encoding and layout, without rewriting the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from aleatoric.data.documents import load as load_documents
from aleatoric.data.opening import open_corpus, open_text_corpus, open_token_corpus
from aleatoric.data.selection import TableOptions
from aleatoric.errors import DataError, UsageError
from aleatoric.types import Corpus, Item

LONG = [Item("Der Hund", "1", "Der Hund", ("bellt", "bellt", "läuft"))]


def table(folder: Path, text: str, encoding: str = "utf-8", name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def read(path: Path, columns: str | None = None, missing: str | None = None) -> Corpus:
    corpus = open_corpus(str(path), "utf-8", TableOptions(columns, missing))
    list(corpus.items)
    return corpus


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-with-mark"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("stated", [False, True])
def test_delimiters_encodings_and_line_ends_are_found(
    tmp_path: Path, encoding: str, delimiter: str, end: str, stated: bool
) -> None:
    rows = ["Context#Response#Group", '"Der Hund"#bellt#1', "Der Hund#bellt#1", "Der Hund#läuft#1"]
    rows = [f"sep={delimiter}"] * stated + [row.replace("#", delimiter) for row in rows]
    text = "".join(row + end for row in rows)
    path = tmp_path / "t.csv"
    marked = b"\xfe\xff" + text.encode("utf-16-be")
    path.write_bytes(marked if encoding.endswith("mark") else text.encode(encoding))
    assert list(read(path).items) == LONG


def test_a_german_spreadsheet(tmp_path: Path) -> None:
    """As Excel writes it: sep=;, a mark, CRLF, commas in cells, trailing delimiters."""
    text = (
        "sep=;\r\nNr.;Satz;Antwort;Reaktionszeit;;\r\n1;Der Hund, der;bellt;0,53;;\r\n"
        '1;Der Hund, der;"sagt ""nein""";1,20;;\r\n\r\n;;;;;\r\n2;Er;"läuft\r\nweg";2,0;;\r\n'
    )
    path = table(tmp_path, text, "utf-8-sig")
    corpus = read(path, "id=nr.,context=Satz,response=Antwort")
    assert list(corpus.items) == [
        Item("1", "1", "Der Hund, der", ("bellt", 'sagt "nein"')),
        Item("2", "2", "Er", ("läuft\r\nweg",)),
    ]


def test_a_japanese_file_in_utf_16(tmp_path: Path) -> None:
    path = table(tmp_path, "文\t回答\n猫は\t鳴く\n猫は\t寝る😀\n", "utf-16", "t.txt")
    (item,) = read(path, "context=文,response=回答").items
    assert item == Item("猫は", "猫は", "猫は", ("鳴く", "寝る😀"))
    unmarked = table(tmp_path, "文\t回答\n猫は\t鳴く\n", "utf-16-le", "u.tsv")
    options = TableOptions("context=文,response=回答")
    assert len(open_corpus(str(unmarked), "utf-16-le", options).items) == 1


def test_long_utf_16_files_are_cut_at_their_lines(tmp_path: Path) -> None:
    rows = [f"c{n},é猫😀{n}\n" for n in range(20_000)]
    path = table(tmp_path, "context,response\n" + "".join(rows), "utf-16")
    items = list(read(path).items)
    assert (len(items), items[-1].responses) == (20_000, ("é猫😀19999",))


def test_names_match_without_case_spaces_and_underscores(tmp_path: Path) -> None:
    path = table(tmp_path, "CONTEXT , Re_sponse,GROUP,,Comment,Comment\na,x,g,1,,\n")
    with pytest.raises(DataError, match="line 1: the column name 'Comment' occurs twice; give"):
        read(path)
    (item,) = read(path, "group=group").items  # columns that are not read may have any name
    assert item == Item("a", "g", "a", ("x",))


@pytest.mark.parametrize(("mark", "count"), [(";", "2.000"), (";", " 12.500 "), (",", "2.000")])
def test_a_thousands_separator_is_refused(tmp_path: Path, mark: str, count: str) -> None:
    path = table(tmp_path, f"context{mark}response{mark}count\na{mark}x{mark}{count}\n")
    if mark == ",":
        assert next(iter(read(path).items)).responses == ("x", "x")
        return
    message = r"line 2: the dot of count '(2\.000|12\.500)' may separate thousands; .* (2000|12500)"
    with pytest.raises(DataError, match=message):
        read(path)


@pytest.mark.parametrize("name", ["n", "N", "freq", "Frequency", "Count_of_people", "resp count"])
def test_a_column_that_may_hold_counts_is_noted(tmp_path: Path, name: str) -> None:
    path = table(tmp_path, f"context,response,{name}\na,x,1\na,y,3\na,z,4.0\n")
    (note,) = read(path).notes
    assert note.startswith(f"warning: each row counts as one answer, and the column '{name}'")
    column = f"count={name}"
    assert note.endswith(f"--columns '{column}'" if " " in name else f"--columns {column}")
    (item,) = read(path, column).items
    assert item.responses == ("x", *"yyy", *"zzzz")
    for columns in ("count=", f"person={name}"):
        assert not list(read(path, columns).notes)
    assert not list(read(table(tmp_path, f"context,response,{name}\na,x,1\na,y,1\n")).notes)


def norms(folder: Path, column: str, rows: str, name: str = "t.csv") -> Path:
    return table(folder, f"context,response,{column}\n" + rows.replace(" ", "\n"), name=name)


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ("cloze", "a,x,.65 a,y,.2 a,z,.15 b,x,1"),
        ("Cloze_Prob", "a,x,0.65 a,y,0.30 b,x,0.9"),  # rare answers are left out
        ("percent", "a,x,65 a,y,35 b,x,95 b,y,5"),
        ("n", "a,x,0.65 a,y,0.35 b,x,1"),
        ("weight", "a,x,0.65 a,y,0.35 b,x,1"),
        ("Prozent", 'a,x,"66,7%" a,y,"33,3%" b,x,100%'),
        ("value", "a,x,.65 a,y,.35 b,x,.9 b,y,.1 c,x,.5 c,y,.3 c,z,.2"),
        ("value", "a,x,66.7 a,y,33.3 b,x,90 b,y,10 c,x,50 c,y,30 c,z,20"),
    ],
)
def test_proportions_are_no_counts(tmp_path: Path, column: str, rows: str) -> None:
    path = norms(tmp_path, column, rows)
    message = rf"t.csv, line 1: .* column '{column}' sum to 1 \(or 100\) per context, .*; multiply"
    with pytest.raises(DataError, match=message):
        read(path)
    for columns in ("count=", "person=", "count=,context=context"):
        if columns != "person=":
            assert not list(read(path, columns).notes)


def test_counts_next_to_proportions_are_named(tmp_path: Path) -> None:
    path = norms(tmp_path, "cloze,votes", "a,x,.75,3 a,y,.25,1 b,x,1,4")
    with pytest.raises(DataError, match="; add --columns count=votes, or add --columns count= if"):
        read(path)
    (first, _) = read(path, "count=votes").items
    assert first.responses == ("x", "x", "x", "y")


@pytest.mark.parametrize(
    "column", ["votes", "n_resp", "total", "times", "nb", "Anzahl", "No. of", "weight"]
)
def test_numbers_that_may_be_counts_are_noted(tmp_path: Path, column: str) -> None:
    path = norms(tmp_path, column, "a,x,65 a,y,20 a,z,5 b,x,75 b,y,10")
    (note,) = read(path).notes
    assert note.startswith(f"warning: each row counts as one answer, and the column '{column}' is")
    assert "if it holds counts, add --columns " in note
    assert not list(read(path, "count=").notes)


def test_proportions_that_are_incomplete_are_noted(tmp_path: Path) -> None:
    (note,) = read(norms(tmp_path, "cloze", "a,x,.35 a,y,.2 b,x,.75 b,y,.1")).notes
    assert "'cloze' is not used; if it holds proportions, multiply them by the number" in note


@pytest.mark.parametrize(
    ("column", "rows"),
    [
        ("rt", "a,x,430 a,y,570 b,x,610 b,y,390"),
        ("Reaktionszeit", "a,x,0.43 a,y,0.57 b,x,0.61 b,y,0.39"),
        ("seconds", "a,x,0.43 a,y,0.57 b,x,0.61 b,y,1.39 c,x,0.7 c,y,0.9"),
        ("age", "a,x,43 a,y,57 b,x,61 b,y,39"),
        ("trial", "a,x,12 a,y,7 b,x,3 b,y,44"),
        ("k", "a,x,1 a,y,2 b,x,3 b,y,4"),
        ("participant_id", "a,x,11 a,y,12 b,x,12 b,y,11"),
        ("participant,k", "a,x,11,9 a,y,12,4 b,x,12,3 b,y,11,7"),
        ("rating", "a,x,1 a,y,7 b,x,2 b,y,5"),
        ("is_original", "a,x,1 a,y,0 b,x,0 b,y,1 c,x,1 c,y,0"),
        ("cloze", "a,x,0.5 a,y,0.5 b,x,0.7 b,y,0.7"),  # of the original word, in every row
        ("cloze", "a,x,0.7 a,x,0.7 a,y,0.3 b,x,0.6 b,x,0.6 b,y,0.4"),  # one row per person
        ("k", "a,x,3 a,x,5 a,y,4 b,x,6 b,y,9"),  # several rows per answer are no counts
        ("comment", "a,x, a,y,3 b,x,ok b,y,"),
        ("k", " ".join(["a,w,?"] * 12 + [f"a,{i},{i % 7}" for i in range(1000)])),
    ],
)
def test_other_numbers_are_left_alone(tmp_path: Path, column: str, rows: str) -> None:
    assert not list(read(norms(tmp_path, column, rows)).notes)


def test_two_columns_of_counts_must_agree(tmp_path: Path) -> None:
    for other in ("Count", "Response_Count"):
        path = norms(tmp_path, f"count,{other}", "a,x,3,3 a,y,1,2")
        message = f"line 3: 'count' and '{other}' hold different counts; choose one with --columns"
        with pytest.raises(DataError, match=message):
            read(path)
        assert read(path, f"count={other}").items[0].responses == tuple("xxxyy")
        same = norms(tmp_path, f"count,{other}", "a,x,3,3.0 a,y,1,1")
        assert read(same).items[0].responses == tuple("xxxy")


def test_response_count_alone_is_no_published_corpus(tmp_path: Path) -> None:
    path = table(tmp_path, "context,Response,Response_Count\na,x,1\na,y,3\n")
    corpus = read(path)
    assert [item.responses for item in corpus.items] == [("x", "y", "y", "y")]
    assert not list(corpus.notes)


def test_codes_of_missing_that_match_nothing_are_noted(tmp_path: Path) -> None:
    path = table(tmp_path, "context,response\na,x\na,NA\na,NA\n")
    assert list(read(path, None, "NA,-9,n/a").notes) == [
        "2 answers with a code of --missing were dropped",
        "no answer is '-9' or 'n/a', named in --missing",
    ]


def test_an_exact_name_wins(tmp_path: Path) -> None:
    path = table(tmp_path, "context,Context,response\na,b,x\n")
    assert next(iter(read(path).items)).context == "a"
    assert next(iter(read(path, "context=Context").items)).context == "b"


def test_a_column_may_be_called_like_something_else(tmp_path: Path) -> None:
    path = table(tmp_path, "response,context,answer\na,ctx,x\n")
    (item,) = read(path, "context=response,response=answer").items
    assert (item.context, item.responses) == ("a", ("x",))
    with pytest.raises(DataError, match=r"'response' is missing \(found 'response', 'context'"):
        read(path, "context=response")


def test_an_empty_name_leaves_a_column_out(tmp_path: Path) -> None:
    path = table(tmp_path, "context,response,group\na,x,g\na,y,h\n")
    assert [item.group for item in read(path, "group=").items] == ["a"]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (None, DataError, r"line 1: 'context' is missing \(found 'Sentence', 'Ans'\); add it, or "
         r"name its column with --columns context=NAME\.$"),
        ("context=Sentence", DataError, "'response' is missing .* --columns response=NAME"),
        ("context=Sentnce", DataError, "'Sentnce' is missing .*; did you mean 'Sentence'"),
        ("context=Sentence,response=P*", DataError, r"'P\*' is missing .*; correct --columns"),
        ("context=Sentence,response=Ans:Sentence", DataError, "backwards; write Sentence:Ans"),
        ("sentence=Sentence", UsageError, "'sentence=Sentence' is not understood; write NAME=COL"),
        ("Sentence", UsageError, "'Sentence' is not understood; write NAME=COLUMN"),
        ("context=Sentence,context=Ans", UsageError, "names context twice"),
        ("context=@header,group=Ans", UsageError, "each context is a column, without group"),
    ],
)  # fmt: skip
def test_wrong_columns_are_one_sentence(
    tmp_path: Path, columns: str | None, error: type[Exception], message: str
) -> None:
    path = table(tmp_path, "Sentence,Ans\na,x\n")
    with pytest.raises(error, match=message):
        read(path, columns)


WIDE = "Sentence;Story;P 1;P 2;P 3;Notes\nThe cat;s1;sat;;Sat\nThe dog;s1;ran;NA;sat;fine\n"


@pytest.mark.parametrize("response", ["P 1:P 3", "p1:P_3", "P ?", "p*", "P 1,response=P 2:P 3"])
def test_one_column_per_participant(tmp_path: Path, response: str) -> None:
    path = table(tmp_path, WIDE.replace("Sat\n", "Sat;\n"))
    corpus = read(path, f"context=Sentence,group=Story,response={response}", "NA")
    assert list(corpus.items) == [
        Item("The cat", "s1", "The cat", ("sat", "Sat"), None, ("P 1", "P 3")),
        Item("The dog", "s1", "The dog", ("ran", "sat"), None, ("P 1", "P 3")),
    ]
    assert list(corpus.notes) == [
        "answers are read from 3 columns ('P 1' to 'P 3'), one per participant",
        "1 blank answer was dropped",
        "1 answer with a code of --missing was dropped",
    ]


def test_columns_may_be_no_persons(tmp_path: Path) -> None:
    path = table(tmp_path, "context,A1,A2,A3\na,x,y,1\n")
    assert next(iter(read(path, "response=A*,person=").items)).persons is None
    with pytest.raises(UsageError, match="so count is known; leave count out"):
        read(path, "response=A*,count=A3")


QUALTRICS = (
    "StartDate,ResponseId,Q1,Q2,Q10\n"
    'Start Date,Response ID,"The ferry left the","Bread, they say,\nis made of",Comments?\n'
    '"{""ImportId"":""startDate""}","{""ImportId"":""_recordId""}","{""ImportId"":""QID1""}",'
    '"{""ImportId"":""QID2""}","{""ImportId"":""QID10""}"\n'
    "2024-01-01,R_1,harbour,flour,\n2024-01-01,R_2,,wheat,nice\n2024-01-02,R_3,dock,-99,\n"
)
OF_QUALTRICS = [
    Item("Q1", "Q1", "The ferry left the", ("harbour", "dock"), None, ("R_1", "R_3")),
    Item("Q2", "Q2", "Bread, they say,\nis made of", ("flour", "wheat"), None, ("R_1", "R_2")),
]


def test_one_row_per_participant(tmp_path: Path) -> None:
    path = table(tmp_path, QUALTRICS)
    corpus = read(path, "context=@header2,response=Q1:Q2,person=ResponseId", "-99")
    assert list(corpus.items) == OF_QUALTRICS
    assert next(iter(corpus.notes)) == (
        "answers are read from 2 columns ('Q1' to 'Q2'), one per context"
    )
    of_header = read(path, "context=@header,response=Q1:Q2,person=ResponseId", "-99")
    assert [item.context for item in of_header.items] == ["Q1", "Q2"]
    assert list(of_header.notes)[1].endswith("in its second header line, use context=@header2")
    # An older export has no line of ids.
    lines = QUALTRICS.splitlines(keepends=True)
    path = table(tmp_path, "".join([*lines[:3], *lines[4:]]))
    columns = "context=@header2,response=Q1:Q2,person=ResponseId"
    assert list(read(path, columns, "-99").items) == OF_QUALTRICS


def test_contexts_may_be_the_names_of_columns(tmp_path: Path) -> None:
    path = table(tmp_path, "Time,The ferry left the,Bread is made of\n1,dock,flour\n2,port,\n")
    items = list(read(path, "context=@header,response=The ferry left the:Bread is made of").items)
    assert [(i.id, i.responses, i.persons) for i in items] == [
        ("The ferry left the", ("dock", "port"), ("2", "3")),
        ("Bread is made of", ("flour",), ("2",)),
    ]
    columns = "context=@header,response=The*,person="
    assert next(iter(read(path, columns).items)).persons is None


def test_an_export_of_qualtrics_without_columns_gets_them_suggested(tmp_path: Path) -> None:
    path = table(tmp_path, QUALTRICS)
    with pytest.raises(DataError, match=r"for an export of Qualtrics, add --columns context=@h"):
        read(path)


def test_columns_of_answers_have_different_names(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Sentence,P1,P1\nThe ferry,a,b\n")
    for columns in ("context=@header,response=P*", "context=Sentence,response=P*"):
        with pytest.raises(DataError, match="line 1: the column name 'P1' occurs twice; give"):
            read(path, columns)


def test_an_unanswered_question_is_named(tmp_path: Path) -> None:
    path = table(tmp_path, "a,b\nx,\ny,\n")
    with pytest.raises(DataError, match="the item 'b' has no answer that is not blank"):
        read(path, "context=@header,response=a:b")


def test_json_lines_may_have_other_keys(tmp_path: Path) -> None:
    path = table(tmp_path, '{"Sentence": "a", "Answers": ["x", "NA"], "k": 1}\n', name="t.jsonl")
    (item,) = read(path, "context=Sentence,response=Answers,id=k", "NA").items
    assert item == Item("1", "1", "a", ("x",))
    path.write_text('{"context": "a", "responses": ["x"], "group": "g"}\n')
    assert next(iter(read(path, "group=").items)).group == "1"
    with pytest.raises(DataError, match=r"line 1: 'Satz' is missing \(found 'context'"):
        read(path, "context=Satz")


def test_texts_of_people_in_a_table(tmp_path: Path) -> None:
    path = table(tmp_path, "Input;Reference;Language\nWas?;Nichts.;de\nWas?; ;de\nWas?;Eis.;de\n")
    corpus = open_text_corpus(str(path))
    for _ in range(2):
        (item,) = corpus.items
        assert (item.input, item.references) == (("Was?",), ("Nichts.", "Eis."))
        assert list(corpus.notes) == ["1 blank answer was dropped"]
    assert corpus.language == "de"
    path = table(tmp_path, WIDE.replace("Sat\n", "Sat;\n"))
    options = TableOptions("context=Sentence,response=P*", "NA")
    texts = [item.references for item in open_text_corpus(str(path), "utf-8", options).items]
    assert texts == [("sat", "Sat"), ("ran", "sat")]


def test_missing_columns_have_the_names_of_the_level(tmp_path: Path) -> None:
    path = table(tmp_path, "Frage;A1;A2\nWer;Ich.;Du.\n")
    with pytest.raises(DataError, match=r"'input' is missing .* --columns input=NAME\.$"):
        open_text_corpus(str(path))
    with pytest.raises(DataError, match=r"'reference' is missing .*reference=FIRST:LAST\)\.$"):
        open_text_corpus(str(path), "utf-8", TableOptions("input=Frage"))


def test_documents_in_a_table(tmp_path: Path) -> None:
    path = table(tmp_path, "Nr,Story\n7,One day.\n8,Another day.\n")
    options = TableOptions("text=story,id=nr")
    documents = open_token_corpus(str(path), "utf-8", "blank-lines", options).items
    assert [(d.id, d.text) for d in documents] == [("7", "One day."), ("8", "Another day.")]
    with pytest.raises(DataError, match=r"'text' is missing \(found 'Nr', 'Story'\); add it, or"):
        list(open_token_corpus(str(path), "utf-8", "file", TableOptions("id=nr")).items)
    assert [d.text for d in load_documents(path, cut="file").items] == [path.read_text().strip()]


@pytest.mark.parametrize("spec", ["simulated:contexts=2", "provo:p.jsonl"])
def test_columns_of_a_published_corpus_are_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="--missing describes a file of your own"):
        open_corpus(spec, "utf-8", TableOptions(missing="NA"))
