package app

import (
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
)

// The address and the reason are said once each; the hint has another address for the server and for the commands.
func TestListenTwice(t *testing.T) {
	l, err := listen(t.Context(), &ServerOptions{Listen: "127.0.0.1:0", MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().String()
	_, err = listen(t.Context(), &ServerOptions{Listen: at, MaxConnections: 1})
	if err == nil || !strings.HasPrefix(stepwell.HintOf(err), "choose another: stepwell serve --listen 127.0.0.1:") || strings.Count(err.Error(), at) != 1 || strings.Count(err.Error(), "in use") != 1 {
		t.Errorf("%v (%s)", err, stepwell.HintOf(err))
	}
	if hint := otherAddress("127.0.0.1:8010"); hint != "127.0.0.1:8011, and export STEPWELL_SERVER=http://127.0.0.1:8011" {
		t.Error(hint)
	}
}
