package bench

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
)

// stacResult is one stream of `bench stac`.
type stacResult struct {
	Workload  string  `json:"workload"` // stac
	Output    string  `json:"output"`   // ndjson.zst, parquet
	N         int     `json:"n"`
	MS        float64 `json:"ms"`
	ItemsPerS float64 `json:"items_per_s"`
	MBPerS    float64 `json:"mb_per_s"`
	CPU       float64 `json:"cpu_ms_per_item"` // all processors
	RSS       float64 `json:"rss_mb"`
}

// stacOutputs are the outputs, with how many items each gets of n.
var stacOutputs = []struct {
	name, format, path string
	share              int
}{{"ndjson.zst", "ndjson", "items.ndjson.zst", 1}, {"parquet", "parquet", "items.parquet", 5}}

const stacPipeline = `
name: bench-stac
steps:
  - {id: ingest, module: bench.scenes, config: {n: %d}}
  - id: update
    module: stac.update
    depends_on: [ingest]
    config: {updates: {properties.license: CC0-1.0, properties.processing_note: "checked {item_id}"}, removes: [assets.qa_radsat]}
  - {id: validate, module: stac.validate, depends_on: [update], config: {missing_schema: fail, strict: true}}
  - {id: output, module: stac.output, depends_on: [validate], config: {format: %s, output_path: %s}}
`

func (r *stacResult) head() string {
	return fmt.Sprintf("%-8s %-11s %9s %10s %10s %8s %12s %8s", "workload", "output", "n", "ms", "items/s", "MB/s", "cpu ms/item", "rss MB")
}

func (r *stacResult) text() string {
	return fmt.Sprintf("%-8s %-11s %9d %10.1f %10.0f %8.1f %12.3f %8.1f", r.Workload, r.Output, r.N, r.MS, r.ItemsPerS, r.MBPerS, r.CPU, r.RSS)
}

// stac measures STAC items of about 20 KB, made in memory: update, validation against core and three
// extensions, and output.
func (b *bench) stac() error {
	schemas, err := b.stacSchemas()
	if err != nil {
		return err
	}
	size := len(newSceneMaker().make(0))
	for range b.Runs {
		for _, w := range stacOutputs {
			n := b.n
			switch b.Format {
			case "all":
				n /= w.share
			case w.name:
			default:
				continue
			}
			took, cpu, err := b.segment(fmt.Sprintf(stacPipeline, n, w.format, w.path), app.Options{Schemas: schemas, Modules: []stream.Module{scenes()}})
			if err != nil {
				return err
			}
			if err := b.print(&stacResult{Workload: "stac", Output: w.name, N: n, MS: ms(took), ItemsPerS: float64(n) / took.Seconds(), MBPerS: float64(n) * float64(size) / 1e6 / took.Seconds(),
				CPU: ms(cpu) / float64(n), RSS: peakMB()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// stacSchemas says where the schemas are: a folder, else the user's cache and the network.
func (b *bench) stacSchemas() (schema.Options, error) {
	if b.Schemas == "" {
		return schema.Options{}, nil
	}
	dir, err := filepath.Abs(b.Schemas)
	if err != nil {
		return schema.Options{}, err
	}
	s := schema.Options{Dir: dir, Mode: schema.Offline}
	return s, schema.New(s).Check()
}

// scenes is the source: n items, one like the other but for id, time, place and cloud cover.
func scenes() stream.Module {
	return stream.Module{
		Spec: spec.Spec{Name: "bench.scenes", Summary: "Makes Landsat-like items in memory.", Stream: &spec.Stream{Role: spec.Source},
			Params: []spec.Field{{Name: "n", Type: spec.Integer, Required: true, Doc: "How many."}}},
		Open: func(_ context.Context, _ *stream.Env, config map[string]any) (any, error) {
			n, err := strconv.Atoi(fmt.Sprint(config["n"]))
			return &sceneSource{n: n, maker: newSceneMaker()}, err
		},
	}
}

type sceneSource struct {
	n     int
	maker *sceneMaker
}

// Read implements stream.Source.
func (s *sceneSource) Read(ctx context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	out.Expect(int64(s.n))
	for i := range s.n {
		if err := out.Item(stream.Lazy(s.maker.make(i), stream.Place{})); err != nil {
			return err
		}
		if i%1000 == 999 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// sceneMaker has the text of an item in pieces, between which the variable parts are inserted.
type sceneMaker struct {
	pieces [][]byte
	values []byte // 'i' id, 't' time, 'w' 's' 'e' 'n' the box, 'c' cloud cover; one less than pieces
	size   int
}

func newSceneMaker() *sceneMaker {
	m := &sceneMaker{}
	text := sceneTemplate()
	for {
		at := bytes.IndexByte(text, '~')
		if at < 0 {
			break
		}
		m.pieces, m.values = append(m.pieces, text[:at]), append(m.values, text[at+1])
		text = text[at+2:]
	}
	m.pieces = append(m.pieces, text)
	for _, p := range m.pieces {
		m.size += len(p)
	}
	m.size += 24 * len(m.values)
	return m
}

func (m *sceneMaker) make(i int) []byte {
	lon, lat := float64(i%3600)/10-180, float64(i/3600%1600)/10-80
	text := make([]byte, 0, m.size)
	for k, p := range m.pieces {
		text = append(text, p...)
		if k == len(m.values) {
			break
		}
		switch m.values[k] {
		case 'i':
			text = fmt.Appendf(text, "LC09_L2SP_%09d_02_T1", i)
		case 't':
			text = fmt.Appendf(text, "2026-%02d-%02dT10:%02d:%02d.530560Z", i%12+1, i%28+1, i%60, i/60%60)
		case 'w':
			text = strconv.AppendFloat(text, lon, 'f', 6, 64)
		case 's':
			text = strconv.AppendFloat(text, lat, 'f', 6, 64)
		case 'e':
			text = strconv.AppendFloat(text, lon+2.1, 'f', 6, 64)
		case 'n':
			text = strconv.AppendFloat(text, lat+2.1, 'f', 6, 64)
		case 'c':
			text = strconv.AppendFloat(text, float64(i%10_000)/100, 'f', 2, 64)
		}
	}
	return text
}

// sceneTemplate is the text of an item of about 20 KB, like those of Landsat Collection 2, with ~ before each letter of
// a variable part.
func sceneTemplate() []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"Feature","stac_version":"1.0.0","stac_extensions":["https://stac-extensions.github.io/eo/v1.0.0/schema.json","https://stac-extensions.github.io/view/v1.0.0/schema.json",` +
		`"https://stac-extensions.github.io/projection/v1.0.0/schema.json"],"id":"~i","collection":"landsat-bench","bbox":[~w,~s,~e,~n],` +
		`"geometry":{"type":"Polygon","coordinates":[[[~w,~s],[~e,~s],[~e,~n],[~w,~n],[~w,~s]]]},` +
		`"properties":{"datetime":"~t","created":"2026-07-30T09:24:29.698352Z","updated":"2026-07-30T09:24:29.698352Z","platform":"landsat-9","instruments":["oli","tirs"],"gsd":30,"description":"Landsat Collection 2 Level-2",` +
		`"eo:cloud_cover":~c,"view:off_nadir":0,"view:sun_azimuth":36.53847911,"view:sun_elevation":28.95618809,"proj:epsg":32657,"proj:shape":[7831,7781],"proj:transform":[30.0,0.0,466185.0,0.0,-30.0,-3395085.0],` +
		`"landsat:scene_id":"~i","landsat:wrs_type":"2","landsat:wrs_path":"084","landsat:wrs_row":"082","landsat:correction":"L2SP","landsat:cloud_cover_land":43.14,"landsat:collection_category":"T1","landsat:collection_number":"02"},` +
		`"links":[{"rel":"self","type":"application/geo+json","href":"https://stac.example.com/api/stac/v1/collections/landsat-bench/items/~i"},{"rel":"collection","type":"application/json","href":"https://stac.example.com/api/stac/v1/collections/landsat-bench"},` +
		`{"rel":"parent","type":"application/json","href":"https://stac.example.com/api/stac/v1/collections/landsat-bench"},{"rel":"root","type":"application/json","href":"https://stac.example.com/api/stac/v1/"}],"assets":{`)
	for i, name := range []string{"coastal", "blue", "green", "red", "nir08", "swir16", "swir22", "lwir11", "atran", "cdist", "drad", "emis", "emsd", "trad", "urad", "qa", "qa_pixel", "qa_radsat", "qa_aerosol", "ang", "mtl.json"} {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%q:{"href":"https://data.example.com/landsat-c2/level-2/standard/oli-tirs/2026/084/082/~i/~i_SR_%[1]s.TIF","type":"image/tiff; application=geotiff; profile=cloud-optimized",`+
			`"roles":["data","reflectance"],"title":"%[1]s band","description":"Collection 2 Level-2 %[1]s (SR_%[1]s) Surface Reflectance of the Operational Land Imager, scaled as the bands below say",`+
			`"eo:bands":[{"name":"OLI_%[1]s","center_wavelength":0.56,"full_width_half_max":0.06,"description":"Visible and infrared %[1]s"}],"raster:bands":[{"scale":2.75e-05,"nodata":0,"offset":-0.2,"data_type":"uint16","spatial_resolution":30}],`+
			`"proj:shape":[7831,7781],"proj:transform":[30.0,0.0,466185.0,0.0,-30.0,-3395085.0],"file:checksum":"1340%064[2]d","file:size":%[3]d}`, name, i*7919, 100_000_000+i)
	}
	b.WriteString(`}}`)
	return b.Bytes()
}
