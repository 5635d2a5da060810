module gatehouse.dev/test/kubectl

go 1.26.0
