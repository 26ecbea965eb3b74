module cuddy.dev/e2e/cluster/tests

go 1.26.0
