//go:build !unix

package main

import (
	"runtime"

	"github.com/spf13/cobra"
)

func demoSystem() string { return runtime.GOOS }

func (a *app) demoRoleCommand() *cobra.Command {
	return &cobra.Command{Use: demoRole, Hidden: true, Args: exactly("ROLE"), RunE: func(*cobra.Command, []string) error { return nil }}
}

func living([]int) []int { return nil }
