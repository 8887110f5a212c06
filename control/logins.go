package control

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// loginBurst wrong tokens are answered at once; then one in loginEvery.
	loginBurst = 10
	loginEvery = 6 * time.Second
	// loginAddresses bounds what is remembered. Beyond it, addresses share one
	// bucket.
	loginAddresses = 4096
)

// logins limits failed logins by address, an IPv4 address or an IPv6 /64. A
// right token is never asked about here, so nobody can lock its owner out. It is
// safe for concurrent use.
type logins struct {
	mu      sync.Mutex
	buckets map[netip.Prefix]*rate.Limiter
	shared  *rate.Limiter
	swept   time.Time
}

func newLogins() *logins {
	return &logins{buckets: make(map[netip.Prefix]*rate.Limiter), shared: newBucket()}
}

func newBucket() *rate.Limiter { return rate.NewLimiter(rate.Every(loginEvery), loginBurst) }

// failed counts a failed login. It returns 0 when it may be answered as one, and
// otherwise how long this address has to wait for its next try.
func (l *logins) failed(now time.Time, remote string) time.Duration {
	b := l.bucket(now, addressOf(remote))
	if b.AllowN(now, 1) {
		return 0
	}
	missing := 1 - b.TokensAt(now)
	return max(time.Duration(missing*float64(loginEvery)), time.Second)
}

func (l *logins) bucket(now time.Time, from netip.Prefix) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b := l.buckets[from]; b != nil {
		return b
	}
	if len(l.buckets) >= loginAddresses && now.Sub(l.swept) >= loginEvery {
		l.swept = now // looking at all of them for each stranger would be work that strangers can order
		for a, b := range l.buckets {
			if b.TokensAt(now) >= loginBurst { // full again: nothing to remember
				delete(l.buckets, a)
			}
		}
	}
	if len(l.buckets) >= loginAddresses {
		return l.shared
	}
	b := newBucket()
	l.buckets[from] = b
	return b
}

// addressOf is whom a remote "host:port" stands for; the zero value for one that
// is no address (a Unix socket, a test), which then share one bucket.
func addressOf(remote string) netip.Prefix {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := ap.Addr().Unmap().WithZone(""), 64
	if addr.Is4() {
		bits = 32
	}
	p, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
