package app

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/secret"
)

// sessionID is the object that keeps the key of cookies: all nodes of a database have the same one, and restarts keep it.
const sessionID = "session-key"

func (s *Server) openSessions(ctx context.Context, keys *access.Keys, tokens *access.JWT) (*access.Sessions, error) {
	key, err := secret.StoredKey(ctx, s.Store, s.Keyring, objectServer, sessionID)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	o := access.SessionOptions{Key: key, URL: s.URL(), Keys: keys, JWT: tokens}
	if s.o.Access.OIDC != nil {
		if o.OIDC, err = access.NewOIDC(s.oidcOptions()); err != nil {
			return nil, err
		}
	}
	return access.NewSessions(o)
}

func (s *Server) oidcOptions() access.OIDCOptions {
	o := *s.o.Access.OIDC
	o.URL = s.URL() + "/api/v1/auth/callback"
	if o.Log == nil {
		o.Log = s.log
	}
	if ref := s.o.Access.ClientSecretRef; ref != "" {
		o.ClientSecret = func(ctx context.Context) (string, error) { return s.Secrets.Vault.Get(ctx, ref) }
	}
	return o
}
