package settings

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
)

func lookupIn(vars map[string]string) (func(string) (string, bool), []string) {
	var environ []string
	for k, v := range vars {
		environ = append(environ, k+"="+v)
	}
	return func(k string) (string, bool) { v, ok := vars[k]; return v, ok }, environ
}

func TestServingFromFileAndVariables(t *testing.T) {
	_, parts, err := Parse("stepwell.yaml", []byte(`
server:
  listen: 0.0.0.0:9000
  limits: {body: 2MiB, rate: 7.5, executions: 40}
  auth: {trusted_proxies: [10.0.0.0/8], jwt: {roles: {ops: operator}}}
retention: {executions_days: 0}
queues: {gpu: {concurrency: 2}}
prices: {llm.chat: {per_call: 0.01, per_input_token: 2.5e-6}}
`))
	if err != nil {
		t.Fatal(err)
	}
	s := parts.Serving
	err = s.Overlay(lookupIn(map[string]string{"SERVICE_PORT": "8020", "LOG_LEVEL": "INFO", "STEPWELL_LOG_LEVEL": "debug", "WORKFLOW_DEFAULT_TIMEOUT": "7200",
		"WORKFLOW_RETRY_MAX_ATTEMPTS": "3", "SCHEDULER_MAX_CONCURRENT_JOBS": "100", "STEPWELL_SERVER_CORS_ORIGINS": "https://a,https://b",
		"STEPWELL_SERVER_LIMITS_BODY": "1GiB", "STEPWELL_SERVER": "http://x", "STEPWELL_DB": "x.db", "STEPWELL_RETENTION_LOGS_DAYS": ""}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, got, want any }{
		{"listen", s.Server.Listen, "0.0.0.0:8020"},
		{"log level", s.Log.Level, "debug"},
		{"timeout", s.Defaults.TimeoutSeconds, 7200.0},
		{"attempts", s.Defaults.Retry.MaxAttempts, 3},
		{"executions", s.Server.Limits.Executions, 100},
		{"rate", s.Server.Limits.Rate, 7.5},
		{"body", s.Server.Limits.Body, ByteSize(1 << 30)},
		{"burst", s.Server.Limits.Burst, 200},
		{"origins", strings.Join(s.Server.CORS.Origins, " "), "https://a https://b"},
		{"proxies", strings.Join(s.Server.Auth.TrustedProxies, " "), "10.0.0.0/8"},
		{"role", s.Server.Auth.JWT.Roles["ops"], "operator"},
		{"executions_days", s.Retention.Executions, 0},
		{"logs_days", s.Retention.Logs, 30},
		{"queue", s.Queues["gpu"].Concurrency, 2},
		{"per call", s.Prices["llm.chat"].PerCall, Decimal(10_000_000_000)},
		{"per token", s.Prices["llm.chat"].PerInputToken, Decimal(2_500_000)},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestSettingsErrorsHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"server: {lisen: x}":                       `stepwell.yaml:1:10: unknown key "lisen" in server|did you mean listen?`,
		"server:\n  limits:\n    body: lots":       `stepwell.yaml:3:11: body: "lots" is not a size|examples: 64KiB, 4MiB`,
		"server:\n  limits:\n    body: 1":          `stepwell.yaml:3:11: body must be at least 1024 and at most 1073741824, not 1|`,
		"server: 3":                                `stepwell.yaml:1:9: server must be a mapping of keys to values, not the number 3|`,
		"server: {limits: {rate: 0}}":              `stepwell.yaml:1:25: rate must be at least 1 and at most 1000000, not 0|`,
		"server: {cors: {origins: {}}}":            `stepwell.yaml:1:17: origins must be a list, not a mapping|`,
		"log: {format: xml}":                       `stepwell.yaml:1:15: format must be one of json, text, not "xml"|`,
		"prices: {a: {per_call: 1.0000000000001}}": `stepwell.yaml:1:24: per_call: "1.0000000000001" has more than 12 digits after the point|`,
		"prices: {a: {per_call: -1}}":              `stepwell.yaml:1:24: per_call: "-1" is not an amount|write it like 0.0025`,
		"retention: {logs_days: 1.5}":              `stepwell.yaml:1:24: logs_days must be a whole number, not the number 1.5|`,
		"http: {allow_private: maybe}":             `stepwell.yaml:1:23: allow_private must be true or false, not the text "maybe"|`,
		"retention: {a: 1, a: 2}":                  `stepwell.yaml`,
		"queues: {a: &x {concurrency: *x}}":        `stepwell.yaml`,
		"sever: {}":                                `stepwell.yaml:1:1: unknown key "sever" in the settings|did you mean server?`,
	} {
		_, _, err := Parse("stepwell.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error()+"|"+stepwell.HintOf(err), want) || stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%s: got %v|%s, want %s", text, err, stepwell.HintOf(err), want)
		}
	}
}

func TestVariablesErrorsNameThem(t *testing.T) {
	for _, c := range [][3]string{
		{"SCHEDULER_MAX_CONCURRENT_JOBS", "many", `SCHEDULER_MAX_CONCURRENT_JOBS: executions must be a whole number, not the text "many"`},
		{"STEPWELL_SERVER_LIMITS_BODY", "big", `STEPWELL_SERVER_LIMITS_BODY: body: "big" is not a size`},
		{"STEPWELL_SERVER_LISTN", "x", `unknown variable STEPWELL_SERVER_LISTN`},
	} {
		s := Default()
		if err := s.Overlay(lookupIn(map[string]string{c[0]: c[1]})); err == nil || err.Error() != c[2] {
			t.Errorf("%s=%s: got %v, want %s", c[0], c[1], err, c[2])
		}
	}
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]Decimal{"0": 0, "1": 1e12, "0.01": 1e10, ".5": 5e11, "2.50e-6": 2_500_000, "1e-12": 1, "1.0000000000000": 1e12, "3e2": 3e14} {
		var d Decimal
		if err := d.UnmarshalText([]byte(text)); err != nil || d != want {
			t.Errorf("%s: got %d, %v, want %d", text, d, err, want)
		}
	}
	for _, text := range []string{"", ".", "a", "-1", "1e", "1e-13", "1e99", "99999999999", "1,5", "0x1", "NaN", "+1"} {
		var d Decimal
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken as %d", text, d)
		}
	}
}

func TestAppIDsFromVariables(t *testing.T) {
	lookup, _ := lookupIn(map[string]string{"BUDAPP_APP_ID": "a", "BUDCLUSTER_APP_ID": "c-eu", "BUDMODEL_APP_ID": "m", "BUDSIM_APP_ID": "s", "BUDNOTIFY_APP_ID": "n",
		"BUDMETRICS_APP_ID": "x", "OTHER_APP_ID": "o"})
	var g Outgoing
	g.Services.AppIDs = map[string]string{"budmodel": "mine"}
	o, err := g.services(lookup)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"budapp": "a", "budcluster": "c-eu", "budmodel": "mine", "budsim": "s", "budnotify": "n", "budmetrics": "x"}
	if diff := cmp.Diff(want, o.AppIDs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
