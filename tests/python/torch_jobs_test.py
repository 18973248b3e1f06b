# SPDX-License-Identifier: Apache-2.0
"""Checks which ranks form one job, according to the variables that torchrun and other launchers set."""
import multiprocessing
import multiprocessing.connection
import os
import unittest

import tremula
import torch_support

LAUNCHERS = ("TREMULA_JOB", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID")
SECONDS = 30
_FORK = multiprocessing.get_context("fork")


def join(rank, environment, timeout, answers):
    for name in LAUNCHERS:
        os.environ.pop(name, None)
    os.environ.update(environment)
    try:
        with tremula.Session("trainer", rank, 2, timeout=timeout) as session:
            answers.put(session.size)
    except tremula.Error as error:
        answers.put((type(error).__name__, str(error)))


def answers_of(first, second, forms_one=None):
    """Returns the answers of rank 0 and rank 1, whose launchers have set these environments; None for a rank that
    waits. forms_one: whether both answer; by default, whether the environments are equal"""
    answers = [_FORK.SimpleQueue() for _ in range(2)]
    with torch_support.Server():
        ranks = [_FORK.Process(target=join, args=(rank, environment, SECONDS, answers[rank]))
                 for rank, environment in enumerate((first, second))]
        for process in ranks:
            process.start()
        if not (first == second if forms_one is None else forms_one):  # the refused one answers; the other waits for its own job's rank
            while all(queue.empty() for queue in answers) and any(p.is_alive() for p in ranks):
                multiprocessing.connection.wait([p.sentinel for p in ranks if p.is_alive()], 0.1)
            found = [queue.get() if not queue.empty() else None for queue in answers]
            for process in ranks:
                process.kill()
        else:
            found = [queue.get() for queue in answers]
        for process in ranks:
            process.join(SECONDS)
    return found


def torchrun(port, address="127.0.0.1", run="none"):
    return {"TORCHELASTIC_RUN_ID": run, "MASTER_ADDR": address, "MASTER_PORT": str(port)}


class Jobs(unittest.TestCase):
    def expect_refused(self, first, second):
        found = [answer for answer in answers_of(first, second) if answer is not None]
        self.assertEqual([kind for kind, _ in found], ["Refused"], found)

    def test_ranks_of_one_torchrun_form_a_group(self):
        self.assertEqual(answers_of(torchrun(29500), torchrun(29500)), [2, 2])
        self.assertEqual(answers_of({}, {}), [2, 2])

    def test_ranks_of_two_torchruns_form_no_group(self):
        self.expect_refused(torchrun(29500), torchrun(29501))
        self.expect_refused(torchrun(29500, "node1"), torchrun(29500, "node2"))
        self.expect_refused({"SLURM_JOB_ID": "1", **torchrun(29500)}, {"SLURM_JOB_ID": "2", **torchrun(29500)})

    def test_run_id_and_job_name_take_precedence(self):
        self.expect_refused(torchrun(29500, run="a"), torchrun(29500, run="b"))
        named = {"TREMULA_JOB": "x", **torchrun(29500)}, {"TREMULA_JOB": "x", **torchrun(29501)}
        self.assertEqual(answers_of(*named, forms_one=True), [2, 2])

    def test_common_run_id_needs_an_address(self):
        none = {"TORCHELASTIC_RUN_ID": "none"}
        for kind, text in answers_of(none, none):
            self.assertEqual(kind, "InvalidArgument")
            self.assertRegex(text, "found torchrun's run id 'none', which is the default.*set TREMULA_JOB.*--rdzv-id")


if __name__ == "__main__":
    unittest.main(verbosity=2)
