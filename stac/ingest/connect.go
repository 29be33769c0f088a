package ingest

import (
	"net/http"
	"time"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/stac/apiclient"
)

// connection is the part of a config that says how to talk to an API.
type connection struct {
	Credentials *credentials      `json:"credentials" doc:"Credentials of the API, sent to its own origin only: one of bearer, username and password, api_key, token_url."`
	Headers     map[string]string `json:"headers" doc:"Headers sent to the API's own origin."`
	Conformance struct {
		Add    []string `json:"add" doc:"Conformance classes to treat as present."`
		Remove []string `json:"remove" doc:"Conformance classes to treat as absent."`
	} `json:"conformance" doc:"Overrides what the server declares; a class is named by its end: item-search, ogcapi-features, collections, collection-search."`
	Method       string   `json:"method" enum:"auto,POST,GET" default:"auto" doc:"How searches are sent; auto is POST, and GET where the server refuses that."`
	Concurrency  int      `json:"concurrency" minimum:"1" maximum:"64" default:"5" doc:"Requests at once."`
	RateLimit    float64  `json:"rate_limit" minimum:"0" default:"10" doc:"Requests per second, 0 for any number."`
	Retry        retry    `json:"retry" doc:"When a request is sent again: after 408, 425, 429, 500, 502-504, 520-529, broken connections and answers; Retry-After is kept."`
	Timeouts     timeouts `json:"timeouts" doc:"Time limits of one attempt."`
	MaxPageBytes int64    `json:"max_page_bytes" minimum:"1024" doc:"Size above which a page is refused, 64 MiB when absent."`
	EmptyPages   int      `json:"empty_pages" minimum:"1" doc:"Empty pages in a row that are followed before the end, 3 when absent."`
}

// credentials are an apiclient.Auth with the keys of this package's modules.
type credentials struct {
	apiclient.Auth
	Header  string   `json:"header" doc:"Header of the API key, X-API-Key when neither header nor query is given."`
	Query   string   `json:"query" doc:"Query parameter of the API key."`
	Origins []string `json:"origins" doc:"Other origins that get the credentials too, like https://host:port."`
}

// retry is an apiclient.Retry, described.
type retry struct {
	Attempts int           `json:"attempts" minimum:"1" doc:"Attempts of one request, 5 when absent."`
	Base     time.Duration `json:"base" doc:"First wait, doubled each time, 500 ms when absent."`
	Max      time.Duration `json:"max" doc:"Longest wait, 30 s when absent."`
	Total    time.Duration `json:"total" doc:"Time for one request with all attempts, 15 min when absent."`
	Budget   int           `json:"budget" minimum:"1" doc:"Retries of the whole step, 1,000 when absent."`
	Also     []int         `json:"also" doc:"Further statuses that are retried."`
	Never    []int         `json:"never" doc:"Statuses that are not retried."`
}

// timeouts are outbound.Timeouts, described.
type timeouts struct {
	Connect   time.Duration `json:"connect" doc:"For the connection, 10 s when absent."`
	TLS       time.Duration `json:"-"`
	FirstByte time.Duration `json:"first_byte" doc:"For the first byte, 60 s when absent."`
	Idle      time.Duration `json:"idle" doc:"Between bytes, 60 s when absent."`
	Total     time.Duration `json:"total" doc:"In all, 5 min when absent."`
}

// open makes the client of an API or of a catalog on the web.
func (c connection) open(h *outbound.Client, url string) (*apiclient.Client, error) {
	if h == nil {
		return nil, wrongConfig("there is no HTTP client for "+url, "")
	}
	o := apiclient.Options{HTTP: h, URL: url, AddConformance: c.Conformance.Add, RemoveConformance: c.Conformance.Remove,
		Concurrent: c.Concurrency, PerSecond: c.RateLimit, MaxPage: c.MaxPageBytes, EmptyPages: c.EmptyPages,
		Retry: apiclient.Retry(c.Retry), Timeouts: outbound.Timeouts(c.Timeouts)}
	if c.Method != "auto" {
		o.Method = c.Method
	}
	for name, value := range c.Headers {
		if o.Header == nil {
			o.Header = http.Header{}
		}
		o.Header.Set(name, value)
	}
	if given := c.Credentials; given != nil {
		o.Auth = given.Auth
		o.Auth.KeyHeader, o.Auth.KeyQuery, o.Auth.Origins = given.Header, given.Query, given.Origins
		if o.Auth.Key != "" && o.Auth.KeyHeader == "" && o.Auth.KeyQuery == "" {
			o.Auth.KeyHeader = "X-API-Key"
		}
	}
	client, err := apiclient.New(o)
	return client, configured(err)
}
