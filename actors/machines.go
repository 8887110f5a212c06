package actors

import (
	"codingrelay/lease"
	"codingrelay/step"
)

// The machines an executor spawns itself: the hub, and a connection for each
// socket. Jobs and fences are spawned by the hub's effects.

// NewHubMachine makes the hub's policy. entries is what the store held, durable
// what it says of itself; prefix makes the addresses of fences unique over
// restarts. It is for executors; programs use [Start].
func NewHubMachine(cfg Config, durable bool, entries []lease.Entry, prefix string) step.Machine {
	return newHub(hubConfig{config: cfg.withDefaults(), durable: durable, entries: entries, prefix: prefix})
}

// NewConnMachine makes the policy of one accepted socket; its address is
// {[KindConn], incarnation}. It is for executors; programs use [Start].
func NewConnMachine(incarnation, remote, token string, cfg Config) step.Machine {
	return newConn(incarnation, remote, token, cfg.withDefaults())
}
