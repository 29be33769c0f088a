package api

import (
	"context"
	"net/http"
)

// Secrets lists secrets, without their values.
func (c *Client) Secrets(ctx context.Context) (*SecretList, error) {
	return get[SecretList](ctx, c, at("secrets"), nil)
}

// SetSecret keeps a secret.
func (c *Client) SetSecret(ctx context.Context, name, value, ifMatch string) (*Secret, error) {
	return send[Secret](ctx, c, http.MethodPut, at("secrets", name), SecretValue{value}, "If-Match", ifMatch)
}

// DeleteSecret removes a secret.
func (c *Client) DeleteSecret(ctx context.Context, name, ifMatch string) error {
	return c.delete(ctx, ifMatch, "secrets", name)
}

// CreateKey makes an API key and gives its token, once.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (*KeyMade, error) {
	return send[KeyMade](ctx, c, http.MethodPost, at("keys"), k)
}

// Keys lists API keys.
func (c *Client) Keys(ctx context.Context) (*KeyList, error) {
	return get[KeyList](ctx, c, at("keys"), nil)
}

// Key shows an API key, by id or name.
func (c *Client) Key(ctx context.Context, id string) (*Key, error) {
	return get[Key](ctx, c, at("keys", id), nil)
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, id string) (*Key, error) {
	return send[Key](ctx, c, http.MethodPost, at("keys", id, "revoke"), nil)
}

// DeleteKey removes an API key.
func (c *Client) DeleteKey(ctx context.Context, id string) error {
	return c.delete(ctx, "", "keys", id)
}

// Audit lists changes and their authors.
func (c *Client) Audit(ctx context.Context, f ListAudit) (*AuditList, error) {
	return get[AuditList](ctx, c, at("audit"), queryOf(f))
}

// Me returns the caller.
func (c *Client) Me(ctx context.Context) (*Me, error) {
	return get[Me](ctx, c, at("me"), nil)
}
