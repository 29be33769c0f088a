package access

import (
	"cmp"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// LimitOptions configure a Limiter.
type LimitOptions struct {
	// Rate is how many requests a second one caller may make. Defaults to 50.
	Rate float64
	// Burst is how many may come at once. Defaults to four times Rate, at least 1.
	Burst int
	// Callers is the number of remembered callers; the least recent are forgotten. Defaults to 20,000.
	Callers int
}

// Limiter limits how often each caller may ask. Its memory is bounded however many there are. It may be used by
// any goroutine.
type Limiter struct {
	o  LimitOptions
	mu sync.Mutex
	// Two generations: callers in neither are new, and when the young one is full it becomes the old one.
	young, old map[string]*rate.Limiter
}

// NewLimiter makes a limiter.
func NewLimiter(o LimitOptions) *Limiter {
	o.Rate = cmp.Or(max(o.Rate, 0), 50)
	o.Burst = cmp.Or(max(o.Burst, 0), max(1, int(4*o.Rate)))
	if o.Callers <= 1 {
		o.Callers = 20_000
	}
	return &Limiter{o: o, young: map[string]*rate.Limiter{}}
}

// Allow reports whether the caller may ask now, and if not, after how long.
func (l *Limiter) Allow(caller string) (ok bool, after time.Duration) {
	now := time.Now()
	one := l.of(caller).ReserveN(now, 1)
	if after = one.DelayFrom(now); after > 0 {
		one.CancelAt(now)
		return false, after
	}
	return true, 0
}

func (l *Limiter) of(caller string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.young[caller]; one != nil {
		return one
	}
	one := l.old[caller]
	if one == nil {
		one = rate.NewLimiter(rate.Limit(l.o.Rate), l.o.Burst)
	}
	if len(l.young) >= (l.o.Callers+1)/2 {
		l.old, l.young = l.young, map[string]*rate.Limiter{}
	}
	l.young[caller] = one
	return one
}

// Remembered is how many callers are remembered now.
func (l *Limiter) Remembered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.young) + len(l.old)
}

// Caller identifies a caller for a Limiter: the principal, or the address of an unknown one. Addresses of IPv6 count by
// their network of 64 bits, because one caller has all of it.
func Caller(p Principal, from netip.Addr) string {
	switch {
	case p.KeyID != "":
		return "key " + p.KeyID
	case p.Kind == KindToken || p.Kind == KindOIDC:
		return p.Kind + " " + p.Name
	case !from.IsValid():
		return "local"
	case from.Is6():
		if network, err := from.Prefix(64); err == nil {
			return "from " + network.String()
		}
	}
	return "from " + from.String()
}
