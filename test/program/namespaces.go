package program

// CanEnterNamespaces reports whether EnterNamespaces works here.
func CanEnterNamespaces() bool {
	entered := make(chan error)
	go func() { entered <- EnterNamespaces() }()
	return <-entered == nil
}
