module cuddy.dev/e2e/cluster/kit

go 1.26.0
