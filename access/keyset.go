package access

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

const (
	fetchTimeout = 10 * time.Second
	maxKeySet    = 1 << 20        // bytes
	unknownAgain = time.Minute    // an unknown key id makes the set read again no more often than this
	staleFor     = 24 * time.Hour // for how long keys are used that could not be refreshed
)

// errNoKey says that the issuer publishes no key that fits.
var errNoKey = &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "no key of the issuer fits"}

// keySet are the issuer's keys, reread from time to time, and when a token names an unknown one.
type keySet struct {
	file, url string
	client    *http.Client
	refresh   time.Duration
	log       *slog.Logger

	reading sync.Mutex // one reads at a time

	mu    sync.Mutex
	keys  []issuerKey
	read  time.Time // when the keys were read
	tried time.Time // when that was tried last
}

func checkKeysURL(text string) error {
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && loopbackName(u.Hostname())) {
		return nil
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "JWT: the URL of the issuer's keys must be https", Hint: "http is for addresses of this machine"}
}

// find is the key with the id that fits the algorithm; without an id the only fitting one. errNoKey; CodeUnavailable
// when no keys could be read.
func (s *keySet) find(ctx context.Context, kid, alg string) (crypto.PublicKey, error) {
	keys, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	if key := pick(keys, kid, alg); key != nil {
		return key, nil
	}
	if kid != "" {
		if keys, err = s.anew(ctx, unknownAgain); err != nil {
			return nil, err
		}
		if key := pick(keys, kid, alg); key != nil {
			return key, nil
		}
	}
	return nil, errNoKey
}

func pick(keys []issuerKey, kid, alg string) crypto.PublicKey {
	var found crypto.PublicKey
	for i := range keys {
		if alg == "" || !keys[i].fits(alg) || kid != "" && keys[i].kid != kid {
			continue
		}
		if found != nil {
			return nil // which of them?
		}
		found = keys[i].key
	}
	return found
}

// current are the keys, reread when they are old. Concurrent callers get the old ones: a slow issuer delays one
// request, not all.
func (s *keySet) current(ctx context.Context) ([]issuerKey, error) {
	s.mu.Lock()
	keys, age := s.keys, time.Since(s.read)
	s.mu.Unlock()
	if keys != nil && age < s.refresh {
		return keys, nil
	}
	if keys != nil && age < max(staleFor, s.refresh) {
		if !s.reading.TryLock() {
			return keys, nil
		}
		s.reading.Unlock()
	}
	return s.anew(ctx, min(unknownAgain, s.refresh))
}

// anew reads the keys unless that was tried within a time. When they cannot be read, those of before go on for
// a day.
func (s *keySet) anew(ctx context.Context, within time.Duration) ([]issuerKey, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.mu.Lock()
	keys, read, tried := s.keys, s.read, s.tried
	s.mu.Unlock()
	stale := func() ([]issuerKey, error) {
		if keys != nil && time.Since(read) < max(staleFor, s.refresh) {
			return keys, nil
		}
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the keys of the tokens' issuer cannot be read", Hint: "the server's log says why"}
	}
	if !tried.IsZero() && time.Since(tried) < within {
		return stale()
	}
	fresh, err := s.fetch(ctx)
	s.mu.Lock()
	if s.tried = time.Now(); err == nil {
		s.keys, s.read = fresh, s.tried
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("the keys of the tokens' issuer cannot be read", "from", s.file+s.url, "error", err)
		return stale()
	}
	return fresh, nil
}

// fetch goes on when the request that needs it is given up: the others need it too.
func (s *keySet) fetch(ctx context.Context) ([]issuerKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	raw, err := s.text(ctx)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxKeySet {
		return nil, fmt.Errorf("more than %d bytes", maxKeySet)
	}
	return parseKeys(raw)
}

func (s *keySet) text(ctx context.Context) (_ []byte, err error) {
	if s.file != "" {
		f, err := os.Open(s.file)
		if err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(io.LimitReader(f, maxKeySet+1))
		return raw, errors.Join(err, f.Close())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, application/jwk-set+json")
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %d", resp.StatusCode)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxKeySet+1))
}

// loopbackName reports whether a host, without a port, is this machine regardless of the resolver.
func loopbackName(host string) bool {
	if host == "localhost" || host == "localhost." {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
