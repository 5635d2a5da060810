// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

func digits(n int) string { return strings.Repeat("1", n) }

func TestTooLong(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "1": false, "100m": false, "1.5Gi": false, "1e3": false, "-1E5": false, "1e1024": false, "5E": false,
		"1e-1024": false, "1e1025": true, "1e-1025": true, "+.5E99999999": true, " 1e99999999 ": true,
		"1e00000001": false, "1e4294967297": true, "1e9x9999": false, "e99999999": false, "abc": false,
		digits(1024): false, digits(1025): true, "0." + digits(1025): true, digits(1025) + "Ki": true,
		digits(2000) + " apples": false, "-" + digits(1024): true, strings.Repeat("1 ", 1000): false,
		strings.Repeat(" ", 2000) + "1": false,
	} {
		if TooLong(text) != want {
			t.Errorf("%.30q with %d characters is too long: %v", text, len(text), !want)
		}
	}
}

// What is attacked with: the time that each takes to parse or to compare grows with the square of
// its length, or never ends.
var attacks = map[string]string{
	"digits": digits(1_000_000), "digits after the point": "0." + digits(1_000_000), "suffix": digits(1_000_000) + "Ki",
	"exponent": "1e-99999999", "large exponent": "1e99999999", "space": "  1e-99999999",
}

// documents returns what a client sends in each format, with a quantity.
func documents(t testing.TB, quantity string, name string) map[string][]byte {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"a":NAME}},
		"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":QUANTITY}}}]}}`
	encode := func(s string) string {
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(encoded)
	}
	inJSON := strings.Replace(strings.Replace(pod, "NAME", encode(name), 1), "QUANTITY", encode(quantity), 1)
	inYAML, err := yaml.JSONToYAML([]byte(inJSON))
	if err != nil {
		t.Fatal(err)
	}
	var content any
	if err := json.Unmarshal([]byte(inJSON), &content); err != nil {
		t.Fatal(err)
	}
	inCBOR, err := direct.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	formats := map[string][]byte{
		runtime.ContentTypeJSON: []byte(inJSON), runtime.ContentTypeYAML: inYAML, runtime.ContentTypeCBOR: inCBOR,
		runtime.ContentTypeProtobuf: inProtobuf(t, quantity, name),
	}
	if json.Valid([]byte(quantity)) {
		formats[runtime.ContentTypeJSON+";number"] = []byte(strings.Replace(inJSON, encode(quantity), quantity, 1))
	}
	return formats
}

// inProtobuf returns a pod with a quantity that is written by hand, as a client can.
func inProtobuf(t testing.TB, quantity, name string) []byte {
	field := func(number byte, content string) string {
		n, length := len(content), ""
		for ; n >= 0x80; n >>= 7 {
			length += string([]byte{byte(n) | 0x80})
		}
		return string([]byte{number<<3 | 2}) + length + string([]byte{byte(n)}) + content
	}
	limits := field(1, field(1, "cpu")+field(2, field(1, quantity)))
	container := field(1, "c") + field(2, "i") + field(8, limits)
	metadata := field(1, "p") + field(12, field(1, "a")+field(2, name))
	pod := field(1, metadata) + field(2, field(2, container))
	return []byte("k8s\x00" + field(1, field(1, "v1")+field(2, "Pod")) + field(2, pod))
}

func codecs() runtime.NegotiatedSerializer {
	return serializer.NewCodecFactory(scheme.Scheme, serializer.WithSerializer(cbor.NewSerializerInfo))
}

func decode(t testing.TB, s runtime.NegotiatedSerializer, format string, document []byte) (runtime.Object, error) {
	mediaType, _, _ := strings.Cut(format, ";")
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatal(mediaType)
	}
	object, kind, err := s.DecoderToVersion(info.StrictSerializer, corev1.SchemeGroupVersion).
		Decode(document, nil, &corev1.Pod{})
	if kind == nil || kind.Kind != "Pod" {
		t.Errorf("in %s: the kind is %v", format, kind)
	}
	return object, err
}

// A quantity that takes minutes to parse is answered as one that is none.
func TestQuantitiesAreRefused(t *testing.T) {
	bounded := Serializer(codecs())
	for name, attack := range attacks {
		for format, document := range documents(t, attack, "a") {
			_, err := decode(t, bounded, format, document)
			if err == nil || err.Error() != resource.ErrFormatWrong.Error() {
				t.Errorf("%s in %s: %v", name, format, err)
			}
			if strings.HasSuffix(format, "cbor") || name == "space" && strings.HasSuffix(format, "protobuf") {
				continue
			}
			_, _, err = Decoder(scheme.Codecs.UniversalDeserializer()).Decode(document, nil, nil)
			if err == nil || err.Error() != resource.ErrFormatWrong.Error() {
				t.Errorf("%s in %s, without a format: %v", name, format, err)
			}
		}
		var content any
		if err := json.Unmarshal(documents(t, attack, "a")[runtime.ContentTypeJSON], &content); err != nil {
			t.Fatal(err)
		}
		if err := Check(content, &corev1.Pod{}); err != resource.ErrFormatWrong {
			t.Errorf("%s in a map: %v", name, err)
		}
	}
	invalid := documents(t, "abc", "a")
	for format, document := range documents(t, attacks["digits"], "a") {
		if strings.HasSuffix(format, "number") {
			continue
		}
		_, want := decode(t, codecs(), format, invalid[format])
		if _, err := decode(t, bounded, format, document); !strings.Contains(want.Error(), err.Error()) {
			t.Errorf("in %s: got error  %v\nwant error %v", format, err, want)
		}
	}
}

// A text that is no quantity may look like one, and ordinary quantities are as they were.
func TestOtherTextsAreKept(t *testing.T) {
	bounded := Serializer(codecs())
	for name, text := range attacks {
		for format, document := range documents(t, "100m", text) {
			want, err := decode(t, codecs(), format, document)
			if err != nil {
				t.Fatal(format, err)
			}
			got, err := decode(t, bounded, format, document)
			if err != nil {
				t.Errorf("%s in %s: %v", name, format, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in %s: -want +got: %s", name, format, diff)
			}
		}
	}
}

func TestPatches(t *testing.T) {
	for patch, want := range map[string]error{
		`{"spec":{"overhead":{"$patch":"replace","cpu":"1"}},"metadata":{"annotations":{"a":"1e99999999"}}}`: nil,
		`{"spec":{"overhead":{"$patch":"replace","cpu":"1e99999999"}}}`:                                      wrong,
		`{"spec":{"overhead":{"cpu":"1e9999\u00399"}}}`:                                                      wrong,
		`{"spec":{"overhead":{"cpu":"\n1e99999"}}}`:                                                          wrong,
		`{"spec":{"overhead":{"cpu":` + digits(2000) + `}}}`:                                                 wrong,
		"{spec: {overhead: {cpu: 1e99999}}}":                                                                 wrong,
		"spec: {overhead: {cpu: !!binary MWUtOTk5OTk5OTk=}}":                                                 wrong,
		"metadata: {labels: {cpu: !!binary MWUtOTk5OTk5OTk=}}":                                               nil,
		"{": nil,
	} {
		if err := CheckPatch([]byte(patch), &corev1.Pod{}); err != want {
			t.Errorf("%.100s: %v", patch, err)
		}
	}
	for document, want := range map[string]error{
		`"1e99999999"`: wrong, `1e99999999`: wrong, `"\u0031e99999999"`: nil, `"1"`: nil, `{`: nil,
	} {
		if err := CheckJSON([]byte(document), &resource.Quantity{}); err != want {
			t.Errorf("%s: %v", document, err)
		}
	}
}

var wrong error = resource.ErrFormatWrong

// YAML writes one text in many ways.
func TestYAMLTexts(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i, " +
		"resources: {limits: {cpu: QUANTITY}}}]}}"
	for _, quantity := range []string{
		"1e99999999", `"1e-99\x3999999"`, `"\u0031e-99999999"`, "\"1e-99\\\n  999999\"", "!!binary MWUtOTk5OTk5OTk=",
		"&a 1e99999999", "!!str 1e-99999999", "'1e-99999999'",
	} {
		document := []byte(strings.Replace(pod, "QUANTITY", quantity, 1))
		_, err := decode(t, Serializer(codecs()), runtime.ContentTypeYAML, document)
		_, _, any := Decoder(scheme.Codecs.UniversalDeserializer()).Decode(document, nil, nil)
		if err == nil || err.Error() != resource.ErrFormatWrong.Error() || any == nil {
			t.Errorf("%s: %v, %v", quantity, err, any)
		}
	}
}

// FuzzDecode has arbitrary documents decoded. What is accepted can be written again in no time, and
// is the same as without a bound.
func FuzzDecode(f *testing.F) {
	for _, quantity := range []string{"1", "1e99999999", "1e-99999999", digits(1025)} {
		for format, document := range documents(f, quantity, quantity) {
			if !strings.HasSuffix(format, "cbor") {
				f.Add(document)
			}
		}
	}
	universal := scheme.Codecs.UniversalDeserializer()
	f.Fuzz(func(t *testing.T, document []byte) {
		object, _, err := Decoder(universal).Decode(document, nil, nil)
		if err != nil {
			return
		}
		if _, err := json.Marshal(object); err != nil {
			return
		}
		want, _, err := universal.Decode(document, nil, nil)
		if err != nil || !apiequality.Semantic.DeepEqual(want, object) {
			t.Errorf("%q: %v, want %v, error %v", document, object, want, err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	pod := &corev1.Pod{}
	pod.Name, pod.Annotations = "p", map[string]string{"a": strings.Repeat(`{"a":"b"},`, 100)}
	for _, name := range []string{"a", "b", "c"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "x/" + name + ":v1",
			Args: []string{"--one=1", "--two=2"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}},
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("100m")}}})
	}
	s := codecs()
	for _, format := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), format)
		document, err := runtime.Encode(s.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), pod)
		if err != nil {
			b.Fatal(err)
		}
		for name, s := range map[string]runtime.NegotiatedSerializer{"plain": s, "bounded": Serializer(s)} {
			b.Run(format+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(document)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := decode(b, s, format, document); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
