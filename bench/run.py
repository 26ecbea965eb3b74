"""Runs the measurements named on the command line, or all, and writes their results."""

import os
import sys

import api_writes
import exec_raw
import first_answer
import memory
from api import Api
from measure import Results
from place import prepare

ALL = {"first_answer": first_answer, "exec_raw": exec_raw, "memory": memory, "api_writes": api_writes}


def main():
    names = sys.argv[1:] or list(ALL)
    api = Api()
    user = prepare(api)
    missed = []
    for name in names:
        results = Results(name, f"make bench BENCH_PROFILE={os.environ['BENCH_PROFILE']} BENCH={name}")
        ALL[name].run(api, user, results)
        results.write()
        missed += results.missed
    print("every aim is met" if not missed else "MISSED: " + "; ".join(missed))


if __name__ == "__main__":
    main()
