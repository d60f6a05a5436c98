"""tests/run must not say that all is well when it is not: a small project with one thing wrong at a time."""
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

MAKEFILE = """all probes unit-tests sim-tests:
\tmkdir -p $(BUILD)/tests/unit/base
\tfor t in tests/unit/base/test_*.c; do gcc -o $(BUILD)/$${t%.c} $$t -lcmocka || exit 1; done
"""
PROGRAM = """#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
static void one(void **state) { (void)state; assert_int_equal(1, 1); }
static void two(void **state) { (void)state; %s; }
int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(one), cmocka_unit_test(two) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
"""


@pytest.fixture
def project(tmp_path):
    for folder in ('tests/unit/base', 'tests/e2e', 'src/base'):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(os.path.join(ROOT, 'tests/run'), tmp_path / 'tests/run')
    (tmp_path / 'Makefile').write_text(MAKEFILE)
    return tmp_path


def run(project, *stages):
    environment = {k: v for k, v in os.environ.items() if k != 'BUILD' and not k.startswith('MAKE')}
    done = subprocess.run(['/usr/bin/python3', 'tests/run', *stages], cwd=project, env=environment, capture_output=True,
                          text=True, timeout=120, check=False)
    last = done.stdout.rstrip('\n').split('\n')[-1]
    counts = re.fullmatch(r'(\d+) passed, (\d+) failed', last)
    assert counts, done.stdout + done.stderr
    return done.returncode, int(counts.group(1)), int(counts.group(2)), done.stdout


def unit(project, line):
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % line)
    return run(project, 'unit')


def e2e(project, text):
    (project / 'tests/e2e/test_x.py').write_text(text)
    return run(project, 'e2e')


def test_every_case_of_a_program_counts(project):
    assert unit(project, 'assert_true(1)')[:3] == (0, 2, 0)


def test_a_failing_case_is_counted_and_shown(project):
    status, passed, failed, output = unit(project, 'assert_int_equal(41, 42)')
    assert (status, passed, failed) == (1, 1, 1)
    assert 'two' in output and '0x29' in output


def test_a_program_that_dies_is_a_failure(project):
    status, _, failed, output = unit(project, 'abort()')
    assert status == 1 and failed >= 1
    assert 'test_x' in output


def test_a_program_that_exits_well_without_its_report_is_a_failure(project):
    status, _, failed, output = unit(project, 'exit(0)')
    assert (status, failed) == (1, 1)
    assert 'ran no test' in output


def test_what_does_not_compile_is_a_failure_and_shown(project):
    status, passed, failed, output = unit(project, 'nonsense here')
    assert (status, passed, failed) == (1, 0, 1)
    assert 'nonsense' in output


def test_a_room_without_a_test_is_a_failure(project):
    (project / 'src/lobby').mkdir()
    status, passed, failed, output = unit(project, 'assert_true(1)')
    assert (status, passed, failed) == (1, 2, 1)
    assert 'lobby' in output


@pytest.mark.parametrize('stage', ['sim', 'e2e', 'crash'])
def test_a_stage_without_tests_is_a_failure(project, stage):
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % 'assert_true(1)')
    status, passed, failed, _ = run(project, stage)
    assert (status, passed, failed) == (1, 0, 1)


def test_pytest_cases_count_and_a_skipped_one_is_a_failure(project):
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % 'assert_true(1)')
    text = ('import pytest\ndef test_a(): pass\ndef test_b(): assert 41 == 42\n'
            '@pytest.mark.skip(reason="tired")\ndef test_c(): pass\n')
    status, passed, failed, output = e2e(project, text)
    assert (status, passed, failed) == (1, 1, 2)
    assert 'assert 41 == 42' in output and 'tired' in output


def test_what_was_said_while_a_test_failed_is_shown(project):
    """Also by a thread that died, which is the reason more often than not."""
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % 'assert_true(1)')
    text = ('import threading\ndef test_a():\n    print("log of a server")\n    thread = threading.Thread(target=lambda: {}["missing"])\n'
            '    thread.start()\n    thread.join()\n    assert 41 == 42\ndef test_b(): print("all is well")\n')
    status, passed, failed, output = e2e(project, text)
    assert (status, passed, failed) == (1, 1, 1)
    assert 'assert 41 == 42' in output and 'log of a server' in output and "KeyError: 'missing'" in output and 'all is well' not in output


def test_a_broken_test_file_is_a_failure(project):
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % 'assert_true(1)')
    status, passed, failed, _ = e2e(project, 'import no_such_thing\n')
    assert (status, passed, failed) == (1, 0, 1)


def test_what_a_test_leaves_running_is_ended_and_counts(project):
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % 'assert_true(1)')
    note = project / 'pid'
    text = ('import subprocess\n'
            'def test_a():\n'
            '    child = subprocess.Popen(["sleep", "97"], start_new_session=True)\n'
            f'    open({str(note)!r}, "w").write(str(child.pid))\n')
    status, passed, failed, output = e2e(project, text)
    assert (status, passed, failed) == (1, 1, 1)
    assert 'left running: sleep 97' in output
    time.sleep(0.1)
    assert not os.path.exists(f'/proc/{note.read_text()}')


def test_whoever_ends_it_waits_for_nothing(project):
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % 'assert_true(1)')
    for name in ('a', 'b'):
        (project / f'tests/e2e/test_{name}.py').write_text(f'import pathlib, time\ndef test_a():\n    pathlib.Path({str(project / name)!r}).touch()\n    time.sleep(97)\n')
    runner = subprocess.Popen(['/usr/bin/python3', 'tests/run', 'e2e'], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not all((project / name).exists() for name in ('a', 'b')) and time.monotonic() < until:
        time.sleep(0.1)
    runner.terminate()
    assert runner.wait(60) == 1


def test_stages_that_run_beside_each_other_are_counted_by_themselves(project):
    (project / 'tests/unit/base/test_x.c').write_text(PROGRAM % 'assert_true(1)')
    (project / 'tests/crash').mkdir()
    (project / 'tests/crash/test_x.py').write_text('def test_a(): pass\ndef test_b(): assert 41 == 42\n')
    status, passed, failed, output = run(project, 'crash', 'fuzz')
    assert (status, passed, failed) == (1, 1, 2)
    assert re.search(r'^crash: 1 passed, 1 failed in ', output, re.M) and re.search(r'^fuzz: 0 passed, 1 failed in ', output, re.M)


def test_an_unknown_stage_is_wrong_usage(project):
    done = subprocess.run([sys.executable, 'tests/run', 'everything'], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and 'usage' in done.stderr
