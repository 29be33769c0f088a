// Package httpcall has the actions that call HTTP services: util.http, and http_request as budpipeline
// had it (specifications: stac-and-media §7 "HTTP request step", budpipeline §3.3).
//
// How requests leave the process, and every limit that the process as a whole keeps, is package outbound's;
// this package reads the parameters, judges the response and makes outputs of it. A job that the service
// works on for longer is recorded before it is asked about for the first time, so that it is never
// submitted again. What the actions read and return is stated in their Specs. Names, parameters and
// outputs are stable.
package httpcall

import (
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// Register adds util.http and http_request, which use the client. It is shared by the process, and the caller closes
// it.
func Register(r *action.Registry, c *outbound.Client) error {
	return r.Add(
		action.Action{Spec: httpSpec(), Handler: &httpHandler{c}},
		action.Action{Spec: requestSpec(), Handler: &requestHandler{c}},
	)
}

func ptr(f float64) *float64 { return &f }
