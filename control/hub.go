package control

import (
	"context"

	"codingrelay/actors"
)

// Hub is what this package needs of [actors.Hub].
type Hub interface {
	Run(ctx context.Context, req actors.RunRequest) (*actors.Run, error)
	FindRun(ctx context.Context, runID string) (*actors.Run, error)
	Runs(ctx context.Context) ([]actors.RunInfo, error)
	Daemons(ctx context.Context) ([]actors.DaemonInfo, error)
	Fences(ctx context.Context) ([]actors.FenceInfo, error)
	ClearFence(ctx context.Context, daemon, fenceID, reason, operator string) (string, error)
	Status(ctx context.Context) (actors.Status, error)
	// Done is closed when the hub has ended.
	Done() <-chan struct{}
}

var _ Hub = (*actors.Hub)(nil)
