package doctor

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
)

// dapr asks the sidecar whether it has what the settings use, and brings what they wait for.
func (e *examination) dapr(ctx context.Context) {
	s := &e.Dapr
	if err := cmp.Or(e.AppErr, e.DaprErr); err != nil {
		e.fail("dapr", stepwell.HintOf(err), "%v", err)
		return
	}
	if s.Port == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*checkPatience)
	defer cancel()
	health := "http://127.0.0.1:" + strconv.Itoa(s.Port) + "/v1.0/healthz"
	if err := request(ctx, health, http.StatusNoContent); err != nil {
		e.fail("dapr", "start the sidecar, or unset DAPR_HTTP_PORT; steps that call services fail until then", "%v", err)
		return
	}
	m, err := s.Metadata(ctx)
	if err != nil {
		e.fail("dapr", stepwell.HintOf(err), "%v", err)
		return
	}
	e.fine("dapr", "the sidecar of the app %s answers at port %d", m.ID, s.Port)
	if missing := s.MissingComponents(m); len(missing) > 0 {
		e.fail("dapr components", "add them to the components of the sidecar, for the app "+m.ID, "%s", strings.Join(missing, ", "))
	}
	if (s.Jobs || s.Wake) && len(m.Scheduler.Addresses) == 0 {
		e.fail("dapr jobs", "start Dapr's scheduler, and give the sidecar its address", "the sidecar is connected to no scheduler")
	}
	if _, port, err := net.SplitHostPort(e.Listen); err == nil && s.Inbound() && port != strconv.Itoa(m.App.Port) {
		e.fail("dapr app", "start the sidecar with --app-port "+port, "the sidecar looks for its app at port %d, the server listens at %s", m.App.Port, e.Listen)
	} else if missing := s.MissingSubscriptions(m); len(missing) > 0 {
		e.warn("dapr subscriptions", "start the server before its sidecar, with the same APP_API_TOKEN, or restart the sidecar now", "the sidecar does not deliver: %s", strings.Join(missing, ", "))
	}
}
