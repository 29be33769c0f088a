package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/resource"
)

// sessions are the operations by which browsers sign in and out.
func (s *server) sessions() {
	handle(s, "me", s.me)
	handle(s, "session.get", s.getSession)
	handle(s, "session.open", s.openSession)
	handle(s, "session.close", s.closeSession)
	handle(s, "auth.login", s.login, redirects)
	handle(s, "auth.callback", s.loggedIn, redirects)
	s.admits["auth.callback"] = func(r *http.Request) error { // issuers add parameters of their own
		kept := url.Values{}
		for _, name := range []string{"state", "code", "error", "iss"} {
			if v := r.URL.Query().Get(name); v != "" {
				kept.Set(name, v)
			}
		}
		r.URL.RawQuery = kept.Encode()
		return nil
	}
}

// SignIn is how one signs in at this server.
type SignIn struct {
	Open    bool     `json:"open" doc:"No credential is needed, because there are no API keys and the caller is at the server's machine."`
	Login   []string `json:"login" doc:"The ways to sign in: api_key, token, oidc." enum:"api_key,token,oidc"`
	Version string   `json:"version" doc:"Of the server."`
}

func (s *server) signIn(p access.Principal) SignIn {
	return SignIn{Open: p.Kind == access.KindAnonymous, Login: s.o.Sessions.Methods(), Version: s.o.Version}
}

// Me is the caller.
type Me struct {
	Name string `json:"name"`
	Role string `json:"role" enum:"viewer,operator,editor,admin,worker"`
	Kind string `json:"kind" doc:"anonymous, api_key, token, oidc or dapr."`
	User Ref    `json:"user" doc:"For whom a trusted proxy asks."`
	SignIn
}

func (s *server) me(ctx context.Context, _ *struct{}) (*answer[Me], error) {
	p := access.Of(ctx)
	if p.Role == 0 {
		return nil, &stepwell.Error{Code: stepwell.CodeUnauthenticated, Message: "nobody knows who asks"}
	}
	return reply(Me{p.Name, p.Role.String(), p.Kind, Ref(p.User), s.signIn(p)}, nil)
}

// SessionState is what a page needs before somebody has signed in.
type SessionState struct {
	SignedIn bool `json:"signed_in" doc:"The request has a credential that is accepted, or needs none. GET /me says whose."`
	SignIn
}

func (s *server) getSession(ctx context.Context, _ *struct{}) (*answer[SessionState], error) {
	p, err := s.caller(ctx)
	if stepwell.CodeOf(err) == stepwell.CodeUnavailable {
		return nil, err
	}
	return reply(SessionState{SignedIn: err == nil, SignIn: s.signIn(p)}, nil)
}

// caller is who sends a request of a public operation.
func (s *server) caller(ctx context.Context) (access.Principal, error) {
	if r := callOf(ctx).request; r != nil && s.o.Auth != nil {
		return s.o.Auth.Authenticate(r)
	}
	return access.Of(ctx), nil
}

// NewSession asks for a session.
type NewSession struct {
	Token string `json:"token" minLength:"1" maxLength:"8192" doc:"An API key or a JSON Web Token."`
}

// Session is what a credential has opened.
type Session struct {
	Name    string `json:"name"`
	Role    string `json:"role" enum:"viewer,operator,editor,admin"`
	Kind    string `json:"kind" doc:"api_key or token."`
	Expires Time   `json:"expires_at" doc:"When the session ends: with its credential, 12 hours after it was opened at the latest."`
}

type sessionAnswer struct {
	Cookie string `header:"Set-Cookie"`
	Body   Session
}

var errNoSessions = &stepwell.Error{Code: stepwell.CodeNotFound, Message: "this server opens no sessions", Hint: "send the credential in Authorization"}

func (s *server) openSession(ctx context.Context, in *struct{ Body NewSession }) (*sessionAnswer, error) {
	if s.o.Sessions == nil {
		return nil, errNoSessions
	}
	c := callOf(ctx)
	got, err := s.o.Sessions.Open(c.request, in.Body.Token)
	if err != nil {
		return nil, err
	}
	c.actor = got.Name
	return &sessionAnswer{got.Cookie.String(), Session{got.Name, got.Role.String(), got.Kind, resource.At(got.Expires)}}, nil
}

type closedSession struct {
	Cookie string `header:"Set-Cookie"`
}

// closeSession ends the session of a browser. Without one there is nothing to do.
func (s *server) closeSession(ctx context.Context, _ *struct{}) (*closedSession, error) {
	if s.o.Sessions == nil {
		return nil, errNoSessions
	}
	c := callOf(ctx)
	p, err := s.caller(ctx)
	if code := stepwell.CodeOf(err); code == stepwell.CodeForbidden {
		return nil, err
	}
	c.actor = p.Actor() // "" when the session had ended
	return &closedSession{s.o.Sessions.Close(c.request).String()}, nil
}

// redirect sends a browser elsewhere.
type redirect struct{ Body func(huma.Context) }

// redirects describes such an answer.
func redirects(op *huma.Operation) {
	op.DefaultStatus = http.StatusSeeOther
	op.Responses["303"] = &huma.Response{Description: "The address is in Location", Headers: map[string]*huma.Param{"Location": {Schema: &huma.Schema{Type: "string"}}}}
}

func redirectTo(address string, cookies ...*http.Cookie) *redirect {
	return &redirect{func(hc huma.Context) {
		for _, c := range cookies {
			hc.AppendHeader("Set-Cookie", c.String())
		}
		hc.SetHeader("Location", address)
		hc.SetStatus(http.StatusSeeOther)
	}}
}

// LoginRequest begins to sign in at an issuer.
type LoginRequest struct {
	Return string `query:"return" maxLength:"1000" doc:"The page of this server to show afterwards, such as /executions."`
}

func (s *server) login(ctx context.Context, in *LoginRequest) (*redirect, error) {
	address, cookie, err := s.o.Sessions.Begin(callOf(ctx).request, in.Return)
	if err != nil {
		return nil, err
	}
	return redirectTo(address, cookie), nil
}

// LoginReturn is the answer of the issuer, which the browser brings.
type LoginReturn struct {
	State  string `query:"state" maxLength:"200"`
	Code   string `query:"code" maxLength:"8192"`
	Error  string `query:"error" maxLength:"1000"`
	Issuer string `query:"iss" maxLength:"1000"`
}

// loggedIn ends a login.
func (s *server) loggedIn(ctx context.Context, in *LoginReturn) (*redirect, error) {
	c := callOf(ctx)
	got, page, end, err := s.o.Sessions.Finish(c.request, access.Return{State: in.State, Code: in.Code, Error: in.Error, Issuer: in.Issuer})
	if err != nil {
		return nil, err
	}
	c.actor = got.Name
	return redirectTo(strings.TrimSuffix(end.Path, "/")+page, got.Cookie, end), nil
}
