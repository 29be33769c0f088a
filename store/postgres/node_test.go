package postgres

import (
	"testing"

	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/store/storetest"
)

func TestNodes(t *testing.T) {
	postgrestest.URL(t)
	storetest.RunNodes(t, opener(""))
}

func TestSeats(t *testing.T) {
	postgrestest.URL(t)
	storetest.RunSeats(t, opener(""))
}

func TestPermits(t *testing.T) {
	postgrestest.URL(t)
	storetest.RunPermits(t, opener(""))
}

func TestNodesBehindPooler(t *testing.T) {
	postgrestest.URL(t)
	storetest.RunNodes(t, opener("&default_query_exec_mode=exec"))
	storetest.RunSeats(t, opener("&default_query_exec_mode=exec"))
	storetest.RunPermits(t, opener("&default_query_exec_mode=exec"))
}
