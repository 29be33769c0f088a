package meter

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/stepwell/stepwell"
)

// collector sends spans to an OpenTelemetry collector over OTLP/HTTP with protobuf; it is an otlptrace.Client. Like the library's
// client (otlptracehttp) it reads OTEL_EXPORTER_OTLP_TIMEOUT, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY. The
// library imports gRPC for one message type and gRPC runs HTML templates, which call methods by name: for their sake the linker
// keeps every exported method of the program, 16 MB of file and 8 MB of the memory of each process.
type collector struct {
	url     string
	headers map[string]string
	gzip    bool
	client  *http.Client
	retry   stepwell.Retry
	stopped context.Context
	stop    context.CancelFunc
}

// collectorRetry is the library's policy: about a minute of tries.
var collectorRetry = stepwell.Retry{MaxAttempts: 5, Backoff: 5 * time.Second, Multiplier: 1.5, MaxBackoff: 30 * time.Second, Jitter: 0.5}

// maxAnswer bounds the part of an answer that is read, in bytes.
const maxAnswer = 64 << 10

func newCollector(endpoint string, headers map[string]string) (*collector, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, stepwell.Invalid("for example http://localhost:4318", "telemetry: %q is not the URL of a collector", endpoint)
	}
	timeout := 10 * time.Second
	if text := exporterVariable("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 0 {
			return nil, stepwell.Invalid("milliseconds, for example 10000", "OTEL_EXPORTER_OTLP_TIMEOUT: %q is not a number of milliseconds", text)
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if transport.TLSClientConfig, err = collectorTLS(); err != nil {
		return nil, err
	}
	c := &collector{url: u.String(), headers: headers, gzip: exporterVariable("COMPRESSION") == "gzip",
		client: &http.Client{Transport: transport, Timeout: timeout}, retry: collectorRetry}
	c.stopped, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// exporterVariable is the value of OTEL_EXPORTER_OTLP_TRACES_<name> or else of OTEL_EXPORTER_OTLP_<name>.
func exporterVariable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// collectorTLS returns nil when no variable names a file.
func collectorTLS() (*tls.Config, error) {
	ca, cert, key := exporterVariable("CERTIFICATE"), exporterVariable("CLIENT_CERTIFICATE"), exporterVariable("CLIENT_KEY")
	if ca == "" && (cert == "" || key == "") {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "OTEL_EXPORTER_OTLP_CERTIFICATE", Err: err}
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, stepwell.Invalid("a PEM file of the collector's authority", "OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", ca)
		}
	}
	if cert != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", Err: err}
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client: it cuts off requests.
func (c *collector) Stop(context.Context) error {
	c.stop()
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client. A collector that is busy or away is asked again, see collectorRetry.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopped, cancel)()
	body, err := c.encode(spans)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	for attempt := 1; ; attempt++ {
		wait, err := c.send(ctx, body)
		if err == nil || wait < 0 || attempt >= c.retry.MaxAttempts {
			return err
		}
		select {
		case <-time.After(max(wait, c.retry.Delay(attempt, rand.Float64()))):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// encode returns the request's body. TracesData is ExportTraceServiceRequest in all but name: spans are its field 1.
func (c *collector) encode(spans []*tracepb.ResourceSpans) ([]byte, error) {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil || !c.gzip {
		return body, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err = w.Write(body); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// retried are the answers after which OTLP/HTTP allows another try.
var retried = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

// send makes one request. After an error, a wait below 0 says that another try is in vain, else how long the collector wants it delayed.
func (c *collector) send(ctx context.Context, body []byte) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	a, err := c.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	switch {
	case a.StatusCode/100 == 2:
		if err == nil && a.Header.Get("Content-Type") == "application/x-protobuf" {
			err = partialSuccess(answer)
		}
		return -1, err
	case slices.Contains(retried, a.StatusCode):
		wait = retryAfter(a.Header.Get("Retry-After"))
	default:
		wait = -1
	}
	return wait, fmt.Errorf("traces: %s answers %s: %s", c.url, a.Status, cmp.Or(string(bytes.TrimSpace(answer)), "(empty)"))
}

// retryAfter returns 0 for a text that is neither seconds nor a date, and at most a minute.
func retryAfter(text string) time.Duration {
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), time.Minute)
	}
	seconds, _ := strconv.Atoi(text)
	return time.Duration(min(max(seconds, 0), 60)) * time.Second
}

// partialSuccess returns an error when an ExportTraceServiceResponse tells of spans that the collector has not taken:
// field 1 is a message of their number (1) and the reason (2).
func partialSuccess(answer []byte) error {
	part, n, reason := fields(answer)[1].bytes, uint64(0), ""
	f := fields(part)
	if n, reason = f[1].number, string(f[2].bytes); n == 0 && reason == "" {
		return nil
	}
	return fmt.Errorf("traces: the collector has rejected %d spans: %s", n, reason)
}

// field is the value of a field of a message of protobuf.
type field struct {
	number uint64
	bytes  []byte
}

// fields returns those of a message up to the first one that is malformed.
func fields(b []byte) map[protowire.Number]field {
	all := map[protowire.Number]field{}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			break
		}
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, _ = protowire.ConsumeVarint(b[n:])
		case protowire.BytesType:
			f.bytes, _ = protowire.ConsumeBytes(b[n:])
		}
		all[number], b = f, b[n+size:]
	}
	return all
}
