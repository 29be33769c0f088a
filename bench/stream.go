package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
)

// streamResult is one stream of `bench stream`.
type streamResult struct {
	Workload    string  `json:"workload"`
	N           int     `json:"n"`
	Checkpoints bool    `json:"checkpoints"`
	MS          float64 `json:"ms"`
	ItemsPerS   float64 `json:"items_per_s"`
	MBPerS      float64 `json:"mb_per_s"` // read
	RSS         float64 `json:"rss_mb"`
	Fsync       float64 `json:"fsync_p50_ms"`
}

const streamPipeline = `
name: bench-stream
settings: {streams: {checkpoint: %t}}
steps:
  - {id: read, module: stream.read, config: {path: in.ndjson}}
  - id: mark
    module: stream.map
    depends_on: [read]
    config: {set: {properties.checked: true, properties.clear: "{{ 100 - item.properties['eo:cloud_cover'] }}"}}
  - {id: keep, module: stream.filter, depends_on: [mark], config: {when: "item.properties['eo:cloud_cover'] < 99.5"}}
  - {id: write, module: stream.write, depends_on: [keep], config: {path: out.ndjson}}
`

func (r *streamResult) head() string {
	return fmt.Sprintf("%-8s %9s %12s %10s %10s %8s %8s %9s", "workload", "n", "checkpoints", "ms", "items/s", "MB/s", "rss MB", "fsync ms")
}

func (r *streamResult) text() string {
	return fmt.Sprintf("%-8s %9d %12t %10.1f %10.0f %8.1f %8.1f %9.3f", r.Workload, r.N, r.Checkpoints, r.MS, r.ItemsPerS, r.MBPerS, r.RSS, r.Fsync)
}

// stream measures a stream of small items through the whole product.
func (b *bench) stream() error {
	size, err := writeItems(filepath.Join(b.dir, "in.ndjson"), b.n)
	if err != nil {
		return err
	}
	for range b.Runs {
		for _, checkpoints := range []bool{false, true} {
			took, _, err := b.segment(fmt.Sprintf(streamPipeline, checkpoints), app.Options{})
			if err != nil {
				return err
			}
			if err := b.print(&streamResult{Workload: "stream", N: b.n, Checkpoints: checkpoints, MS: ms(took), ItemsPerS: float64(b.n) / took.Seconds(),
				MBPerS: float64(size) / 1e6 / took.Seconds(), RSS: peakMB(), Fsync: b.fsync}); err != nil {
				return err
			}
		}
	}
	return nil
}

// segment runs one pipeline in an app of its own, and takes the time from the start call to the end.
func (b *bench) segment(pipeline string, o app.Options) (took, cpu time.Duration, err error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range entries { // of the run before
		if e.Name() != "in.ndjson" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(b.dir, e.Name())))
		}
	}
	if err != nil {
		return 0, 0, err
	}
	d, problems := definition.Parse([]byte(pipeline), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		return 0, 0, err
	}
	o.DB, o.Synchronous, o.Workers = filepath.Join(b.dir, "stream.db"), b.Sync, b.Workers
	before := cpuTime()
	err = withApp(b.ctx, o, func(ctx context.Context, a *app.App) error {
		compiled, err := a.Conductor.Register(ctx, d)
		if err != nil {
			return err
		}
		resetPeak()
		began := time.Now()
		err = execute(ctx, a, conductor.Request{Pipeline: compiled, Dir: b.dir})
		took = time.Since(began)
		return err
	})
	return took, cpuTime() - before, err
}

// writeItems makes a file of items like those of a satellite archive, about 1 KB each.
func writeItems(path string, n int) (size int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	for i := range n {
		lon, lat := float64(i%3600)/10-180, float64(i/3600%1700)/10-85
		written, err := fmt.Fprintf(w, `{"type":"Feature","stac_version":"1.0.0","id":"SCENE_%09d","collection":"bench","geometry":{"type":"Polygon","coordinates":[[[%[2]g,%[3]g],[%[4]g,%[3]g],[%[4]g,%[5]g],[%[2]g,%[5]g],[%[2]g,%[3]g]]]},`+
			`"bbox":[%[2]g,%[3]g,%[4]g,%[5]g],"properties":{"datetime":"2026-%02[6]d-%02[7]dT10:%02[8]d:00Z","platform":"bench-1","instruments":["msi"],"gsd":10,"eo:cloud_cover":%[9]g,"view:off_nadir":0,"proj:epsg":32633},`+
			`"links":[{"rel":"self","href":"https://stac.example.com/collections/bench/items/SCENE_%09[1]d"},{"rel":"collection","href":"https://stac.example.com/collections/bench"}],`+
			`"assets":{"visual":{"href":"https://data.example.com/bench/%09[1]d/visual.tif","type":"image/tiff; application=geotiff; profile=cloud-optimized","roles":["visual"]},`+
			`"thumbnail":{"href":"https://data.example.com/bench/%09[1]d/thumbnail.jpg","type":"image/jpeg","roles":["thumbnail"]}},"stac_extensions":["https://stac-extensions.github.io/eo/v1.0.0/schema.json"]}`+"\n",
			i, lon, lat, lon+0.1, lat+0.1, i%12+1, i%28+1, i%60, float64(i%1000)/10)
		if err != nil {
			return 0, err
		}
		size += int64(written)
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil { // so that the disk has nothing to write of it meanwhile
		return 0, err
	}
	return size, f.Close()
}
