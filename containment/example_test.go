//go:build linux

package containment_test

import (
	"fmt"
	"io"
	"time"

	"codingrelay/containment"
)

// The program has called containment.SupervisorMain() first in its main.
func ExampleStart() {
	tree, err := containment.Start(containment.Config{}, containment.Spec{
		Argv:  []string{"sh", "-c", "cat; exit 3"},
		Dir:   "/",
		Env:   []string{"PATH=/usr/bin:/bin"},
		Stdin: []byte("the prompt\n"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _, _ = io.Copy(io.Discard, tree.Stderr()) }()
	out, _ := io.ReadAll(tree.Stdout())
	receipt, err := tree.Wait()
	fmt.Printf("%s%v, proven gone: %t (by %s)\n", out, receipt.Exit, err == nil, receipt.Mechanism)
	// Output:
	// the prompt
	// exit 3, proven gone: true (by supervisor)
}

// A stop ends the leader and what has escaped from it.
func ExampleTree_Stop() {
	cfg := containment.Config{Grace: 100 * time.Millisecond}
	tree, err := containment.Start(cfg, containment.Spec{
		Argv: []string{"/bin/sh", "-c", "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exec sleep 1000"},
		Dir:  "/",
		Env:  []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tree.Close() }()
	tree.Stop()
	receipt, err := tree.Wait()
	fmt.Println(receipt.Exit, err)
	// Output: signal 15 (terminated) <nil>
}
