"""A database in the sandbox's own files, which live in memory and are gone when it ends. To keep
them, show a folder:

    mkdir notes; brumate -v ./notes:/notes:rw examples/sqlite_notes.py /notes/notes.db
"""

import sqlite3
import sys

path = sys.argv[1] if len(sys.argv) > 1 else "notes.db"
with sqlite3.connect(path) as db:
    db.execute("create table if not exists notes (id integer primary key, day text, text text)")
    db.executemany("insert into notes (day, text) values (?, ?)", [
        ("Monday", "snakes sleep through the cold"),
        ("Tuesday", "they wake to drink"),
        ("Wednesday", "and go on sleeping"),
    ])

with sqlite3.connect(path) as db:
    for number, day, text in db.execute("select * from notes order by id"):
        print(f"{number}. {day}: {text}")
    [words] = db.execute("select sum(length(text) - length(replace(text, ' ', '')) + 1) from notes")
    print("Words altogether:", words[0], "- in", path)
