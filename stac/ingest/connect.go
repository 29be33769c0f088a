package ingest

import (
	"net/http"
	"time"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/api"
)

// connection is the part of a config that says how to talk to an API.
type connection struct {
	Credentials *credentials      `json:"credentials"`
	Headers     map[string]string `json:"headers"`
	Conformance struct {
		Add    []string `json:"add"`
		Remove []string `json:"remove"`
	} `json:"conformance"`
	Method      string  `json:"method"`
	Concurrency int     `json:"concurrency"`
	RateLimit   float64 `json:"rate_limit"`
	Retry       struct {
		Attempts int   `json:"attempts"`
		Base     wait  `json:"base"`
		Max      wait  `json:"max"`
		Total    wait  `json:"total"`
		Budget   int   `json:"budget"`
		Also     []int `json:"also"`
		Never    []int `json:"never"`
	} `json:"retry"`
	Timeouts struct {
		Connect   wait `json:"connect"`
		FirstByte wait `json:"first_byte"`
		Idle      wait `json:"idle"`
		Total     wait `json:"total"`
	} `json:"timeouts"`
	MaxPageBytes int64 `json:"max_page_bytes"`
	EmptyPages   int   `json:"empty_pages"`
}

type credentials struct {
	Bearer       string   `json:"bearer"`
	Username     string   `json:"username"`
	Password     string   `json:"password"`
	Key          string   `json:"api_key"`
	Header       string   `json:"header"`
	Query        string   `json:"query"`
	TokenURL     string   `json:"token_url"`
	ClientID     string   `json:"client_id"`
	ClientSecret string   `json:"client_secret"`
	Scope        string   `json:"scope"`
	Audience     string   `json:"audience"`
	Origins      []string `json:"origins"`
}

// open makes the client of an API or of a catalog on the web.
func (c connection) open(h *outbound.Client, url string) (*api.Client, error) {
	if h == nil {
		return nil, wrongConfig("there is no HTTP client for "+url, "")
	}
	o := api.Options{HTTP: h, URL: url, AddConformance: c.Conformance.Add, RemoveConformance: c.Conformance.Remove,
		Concurrent: c.Concurrency, PerSecond: c.RateLimit, MaxPage: c.MaxPageBytes, EmptyPages: c.EmptyPages,
		Retry: api.Retry{Attempts: c.Retry.Attempts, Base: time.Duration(c.Retry.Base), Max: time.Duration(c.Retry.Max),
			Total: time.Duration(c.Retry.Total), Budget: c.Retry.Budget, Also: c.Retry.Also, Never: c.Retry.Never},
		Timeouts: outbound.Timeouts{Connect: time.Duration(c.Timeouts.Connect), FirstByte: time.Duration(c.Timeouts.FirstByte),
			Idle: time.Duration(c.Timeouts.Idle), Total: time.Duration(c.Timeouts.Total)}}
	if c.Method != "auto" {
		o.Method = c.Method
	}
	for name, value := range c.Headers {
		if o.Header == nil {
			o.Header = http.Header{}
		}
		o.Header.Set(name, value)
	}
	if a := c.Credentials; a != nil {
		o.Auth = api.Auth{Bearer: a.Bearer, Username: a.Username, Password: a.Password, Key: a.Key, KeyHeader: a.Header, KeyQuery: a.Query,
			TokenURL: a.TokenURL, ClientID: a.ClientID, ClientSecret: a.ClientSecret, Scope: a.Scope, Audience: a.Audience, Origins: a.Origins}
		if a.Key != "" && a.Header == "" && a.Query == "" {
			o.Auth.KeyHeader = "X-API-Key"
		}
	}
	client, err := api.New(o)
	return client, configured(err)
}

func bound(n float64) *float64 { return &n }

func listOf(name string, t spec.Type) *spec.Field { return &spec.Field{Name: name, Type: t} }

// connectionFields are the fields of a connection.
func connectionFields() []spec.Field {
	text := func(name, doc string) spec.Field { return spec.Field{Name: name, Type: spec.String, Doc: doc} }
	secret := func(name, doc string) spec.Field {
		return spec.Field{Name: name, Type: spec.String, Secret: true, Doc: doc}
	}
	length := func(name, doc string) spec.Field { return spec.Field{Name: name, Type: spec.Duration, Doc: doc} }
	count := func(name string, least float64, doc string) spec.Field {
		return spec.Field{Name: name, Type: spec.Integer, Min: bound(least), Doc: doc}
	}
	return []spec.Field{
		{Name: "credentials", Type: spec.Object, Doc: "What the API wants to see, sent to its own origin only: one of bearer, username and password, api_key, token_url.", Fields: []spec.Field{
			secret("bearer", "Bearer token."), text("username", "User of basic authentication."), secret("password", "Password of basic authentication."),
			secret("api_key", "API key, sent in header or query."), text("header", "Header of the API key, X-API-Key when neither header nor query is given."),
			text("query", "Query parameter of the API key."), text("token_url", "Where OAuth 2 client credentials get a token."), text("client_id", "OAuth client."),
			secret("client_secret", "Its secret."), text("scope", "OAuth scope."), text("audience", "OAuth audience."),
			{Name: "origins", Type: spec.Array, Items: listOf("origin", spec.String), Doc: "Other origins that get the credentials too, like https://host:port."}}},
		{Name: "headers", Type: spec.Object, Doc: "Headers sent to the API's own origin."},
		{Name: "conformance", Type: spec.Object, Doc: "Overrules what the server declares; a class is named by its end: item-search, ogcapi-features, collections, collection-search.",
			Fields: []spec.Field{{Name: "add", Type: spec.Array, Items: listOf("class", spec.String), Doc: "Classes that it has after all."},
				{Name: "remove", Type: spec.Array, Items: listOf("class", spec.String), Doc: "Classes that it does not have."}}},
		{Name: "method", Type: spec.String, Enum: []string{"auto", "POST", "GET"}, Default: "auto", Doc: "How searches are sent; auto is POST, and GET where the server refuses that."},
		{Name: "concurrency", Type: spec.Integer, Min: bound(1), Max: bound(64), Default: 5, Doc: "Requests at once."},
		{Name: "rate_limit", Type: spec.Number, Min: bound(0), Default: 10.0, Doc: "Requests per second, 0 for any number."},
		{Name: "retry", Type: spec.Object, Doc: "When a request is sent again: after 408, 425, 429, 500, 502-504, 520-529, broken connections and answers; Retry-After is kept.", Fields: []spec.Field{
			count("attempts", 1, "Attempts of one request, 5 when absent."), length("base", "First wait, doubled each time, 500 ms when absent."), length("max", "Longest wait, 30 s when absent."),
			length("total", "Time for one request with all attempts, 15 min when absent."), count("budget", 1, "Second attempts of the whole step, 1,000 when absent."),
			{Name: "also", Type: spec.Array, Items: listOf("status", spec.Integer), Doc: "Statuses that are tried again besides."},
			{Name: "never", Type: spec.Array, Items: listOf("status", spec.Integer), Doc: "Statuses that are not."}}},
		{Name: "timeouts", Type: spec.Object, Doc: "Time limits of one attempt.", Fields: []spec.Field{length("connect", "For the connection, 10 s when absent."),
			length("first_byte", "For the first byte, 60 s when absent."), length("idle", "Between bytes, 60 s when absent."), length("total", "In all, 5 min when absent.")}},
		count("max_page_bytes", 1024, "Size above which a page is refused, 64 MiB when absent."),
		count("empty_pages", 1, "Empty pages in a row that are followed before the end, 3 when absent."),
	}
}
