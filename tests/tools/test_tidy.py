"""tools/tidy must find what it is there to find: a small tree that is right, and one mistake planted at a time."""
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

HEADER = """/* sale: a thing with a number. */
#ifndef STAMPEDE_ENGINE_SALE_H
#define STAMPEDE_ENGINE_SALE_H

#include "base/fault.h"

int sale_count(void);

#endif
"""
FAULT = """/* fault: the world failed. */
#ifndef STAMPEDE_BASE_FAULT_H
#define STAMPEDE_BASE_FAULT_H

#define FAULT_NONE 0

#endif
"""
INSIDE = """/* part: known in its room. */
#ifndef STAMPEDE_ENGINE_INSIDE_PART_H
#define STAMPEDE_ENGINE_INSIDE_PART_H

#define PART 1

#endif
"""
SOURCE = """#include "engine/sale.h"

#include <stdio.h>

int sale_count(void)
{
    return 1; /* strcpy( in a comment is no call */
}
"""


def lines(count):
    return ''.join(f'int number_{i};\n' for i in range(count))


@pytest.fixture
def house(tmp_path):
    for path, text in {'src/engine/sale.h': HEADER, 'src/engine/inside/part.h': INSIDE, 'src/base/fault.h': FAULT, 'src/engine/sale.c': SOURCE}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    shutil.copy(os.path.join(ROOT, '.clang-format'), tmp_path)
    return tmp_path


def tidy(folder):
    done = subprocess.run([os.path.join(ROOT, 'tools/tidy'), str(folder)], capture_output=True, text=True, check=False)
    failed = [line[len('not ok '):] for line in done.stdout.split('\n') if line.startswith('not ok ')]
    assert (done.returncode == 0) == (not failed), done.stdout + done.stderr
    return failed, done.stdout


def test_a_tidy_house_passes_every_check(house):
    failed, output = tidy(house)
    assert failed == [], output
    assert output.count('ok ') >= 10


BODY = 'int long_one(void)\n{\n' + '    (void)0;\n' * 80 + '    return 0;\n}\n'

MISTAKES = [
    ('includes_point_down', 'src/base/up.c', '#include "engine/sale.h"\n'),
    ('includes_point_down', 'src/engine/near.c', '#include "sale.h"\n'),
    ('includes_point_down', 'src/engine/gone.c', '#include "base/gone.h"\n'),
    ('includes_point_down', 'src/engine/deep.c', '#include "../base/fault.h"\n'),
    ('includes_point_down', 'src/attic/thing.c', 'int thing;\n'),
    ('includes_point_down', 'src/journal/peeps.c', '#include "engine/inside/part.h"\n'),
    ('includes_point_down', 'src/main.c', '#include "engine/inside/part.h"\n'),
    ('includes_point_down', 'src/base/inside/up.c', '#include "engine/sale.h"\n'),
    ('includes_point_down', 'src/engine/inside/far/thing.c', 'int thing;\n'),
    ('includes_point_down', 'src/loose.c', 'int loose;\n'),
    ('libraries_stay_in_their_room', 'src/engine/sql.c', '#include <sqlite3.h>\n'),
    ('libraries_stay_in_their_room', 'src/base/loop.c', '#include <uv.h>\n'),
    ('names', 'src/base/text_utils.c', 'int text;\n'),
    ('names', 'tests/unit/common/test_x.c', 'int x;\n'),
    ('names', 'src/base/a.c', 'int sale_helper(void)\n{\n    return 0;\n}\n'),
    ('names', 'src/base/b.c', 'typedef struct pair {\n    int a;\n} pair;\n'),
    ('calls', 'src/base/c.c', 'void c(char *a)\n{\n    strcpy(a, "x");\n}\n'),
    ('calls', 'src/base/c.c', 'int c(char *a)\n{\n    return atoi(a);\n}\n'),
    ('calls', 'src/base/c.c', 'long c(char *a)\n{\n    return strtol(a, 0, 10);\n}\n'),
    ('calls', 'tests/unit/base/c.c', 'void c(char *a)\n{\n    system(a);\n}\n'),
    ('json_has_one_writer', 'src/engine/j.c', 'const char *j = "{\\"a\\":1}";\n'),
    ('nothing_is_left_undone', 'src/base/d.c', '/* TO' 'DO: later */\nint d;\n'),
    ('nothing_is_left_undone', 'src/base/d.c', '#i' 'f 0\nint d;\n#endif\n'),
    ('no_path_of_one_machine', 'docs/a.md', 'See /ho' 'me/someone/notes.\n'),
    ('sizes_of_files', 'src/base/e.c', lines(501)),
    ('sizes_of_functions', 'src/base/f.c', BODY),
    ('sizes_of_functions', 'src/base/g.c', 'int g(int a, int b, int c, int d, int e, int f)\n{\n    return a;\n}\n'),
    ('sizes_of_functions', 'src/base/h.c', 'int h(void)\n{\n    goto one;\none:\n    goto two;\ntwo:\n    return 0;\n}\n'),
    ('headers_are_guarded', 'src/base/i.h', '/* i: a letter. */\n#ifndef I_H\n#define I_H\n#endif\n'),
    ('headers_are_guarded', 'src/base/k.h', '#ifndef STAMPEDE_BASE_K_H\n#define STAMPEDE_BASE_K_H\n#endif\n'),
    ('white_space', 'src/base/l.c', 'int l; \n'),
    ('white_space', 'src/base/m.c', 'int m;'),
    ('white_space', 'src/base/n.c', '/* ' + 'x' * 130 + ' */\nint n;\n'),
    ('white_space', 'docs/b.md', 'a\tb\n'),
    ('format', 'src/base/o.c', 'int   o;\n'),
    ('format', 'src/base/p.c', 'int p(void) {\n  return 0;\n}\n'),
]


@pytest.mark.parametrize('check,path,text', MISTAKES, ids=[f'{m[0]}-{m[1]}-{i}' for i, m in enumerate(MISTAKES)])
def test_a_planted_mistake_is_found(house, check, path, text):
    (house / path).parent.mkdir(parents=True, exist_ok=True)
    (house / path).write_text(text)
    failed, output = tidy(house)
    assert check in failed, output
    assert path in output


ALLOWED = [
    ('src/base/long.c', '/* tidy: long because it is a table. */\n' + lines(501)),
    ('src/base/f.c', '/* tidy: long function because it is a parser. */\n' + BODY),
    ('src/engine/down.c', '#include "base/fault.h"\n#include "engine/sale.h"\n'),
    ('src/engine/inside/near.c', '#include "base/fault.h"\n#include "engine/inside/part.h"\n#include "engine/sale.h"\n'),
    ('src/engine/own.c', '#include "engine/inside/part.h"\n'),
    ('src/main.c', '#include "base/fault.h"\n#include "engine/sale.h"\n'),
    ('src/base/q.c', 'const char *q = "atoi(x) in a string";\n'),
    ('src/base/r.c', 'int r(int a, void (*each)(int b, int c, int d), int e)\n{\n    each(a, e, 0);\n    return e;\n}\n'),
]


@pytest.mark.parametrize('path,text', ALLOWED, ids=[a[0] for a in ALLOWED])
def test_what_is_allowed_passes(house, path, text):
    (house / path).write_text(text)
    failed, output = tidy(house)
    assert failed == [], output
