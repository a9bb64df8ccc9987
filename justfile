# Every check of CI under the name that CI uses. What each does stands in .ci/run.

# List the checks.
default:
    @just --list

# Everything that CI runs, in its order.
all:
    bash .ci/run

fmt:
    bash .ci/run fmt

clippy:
    bash .ci/run clippy

doc:
    bash .ci/run doc

test:
    bash .ci/run test

quickstart:
    bash .ci/run quickstart

tour:
    bash .ci/run tour

features:
    bash .ci/run features

oldest-rusqlite:
    bash .ci/run oldest-rusqlite

deny:
    bash .ci/run deny

machete:
    bash .ci/run machete
