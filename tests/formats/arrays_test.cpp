#include "core/error.hpp"
#include "core/formats/bundle.hpp"
#include "core/formats/cursor.hpp"
#include "core/formats/npy.hpp"
#include "core/formats/zip.hpp"
#include "core/json_value.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/random.hpp"

namespace stagger::formats {
namespace {

/// A `.npy` of that header, of version 1, 2 or 3.
std::string npy(const std::string& header, const std::string& data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  put_number(bytes, static_cast<std::uint64_t>(version), 1);
  put_number(bytes, 0, 1);
  put_number(bytes, header.size(), version == 1 ? 2 : 4);
  return bytes + header + data;
}

std::string npy_refusal(const std::string& bytes) {
  try {
    static_cast<void>(read_npy(bytes, "a", 1000));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Tensor random_tensor(test::Random& random) {
  Tensor tensor{.dtype = static_cast<Dtype>(random.between(0, 8))};
  std::int64_t count = 1;
  for (std::int64_t axes = random.between(0, 4); axes > 0; --axes) {
    tensor.shape.push_back(random.between(0, 4));
    count *= tensor.shape.back();
  }
  const DtypeRow& row = row_of(tensor.dtype);
  const int bits = tensor.dtype == Dtype::boolean ? 1 : 8 * row.bytes - 1;
  const std::int64_t most = bits >= 63 ? 0x7fffffffffffffff : (std::int64_t{1} << bits) - 1;
  for (; count > 0; --count)
    tensor.elements.push_back(random.between(row.is_signed ? -most - 1 : 0, most));
  return tensor;
}

TEST_CASE("arrays of every type are read again as they are written, from .npz and safetensors") {
  test::Random random(11);
  for (int round = 0; round < 300; ++round) {
    Bundle bundle;
    for (const char* name : {"a", "some.name", "z"}) {
      NamedTensor named{.name = name};
      named.tensor = random_tensor(random);
      bundle.tensors.push_back(std::move(named));
    }
    bundle.words = {{"spt", "true"}};
    CHECK(write_npz(bundle) == write_npz(bundle));
    const Bundle npz = read_npz(write_npz(bundle), "x");
    const Bundle safe = read_safetensors(write_safetensors(bundle), "x");
    CHECK(safe.words == bundle.words);
    for (const NamedTensor& each : bundle.tensors) {
      REQUIRE(npz.at(each.name) == each.tensor);
      REQUIRE(safe.at(each.name) == each.tensor);
    }
  }
}

TEST_CASE("tensors as JSON are read again; short rows are filled") {
  Bundle bundle;
  NamedTensor named{.name = "a"};
  named.tensor = {.dtype = Dtype::int64, .shape = {2, 1, 3}, .elements = {1, -2, 3, 4, 5, 6}};
  bundle.tensors.push_back(named);
  const std::string text = write_json_tensors(bundle);
  const JsonDocument document(text, "x");
  CHECK(read_json_tensors(document.root(), "x").at("a") == named.tensor);
  const JsonDocument ragged(
      R"({"a": [[1, 2], [], [3]], "b": true, "c": "words", "d": {"e": [[true]]}, "f": null,
          "g": ["full", "causal"], "h": [], "i": [[], []], "j": ["last"]})",
      "x");
  const Bundle read = read_json_tensors(ragged.root(), "x");
  CHECK(read.at("a") == Tensor{Dtype::int64, {3, 2}, {1, 2, -1, -1, 3, -1}});
  CHECK(read.at("b") == Tensor{Dtype::boolean, {}, {1}});
  CHECK(read.at("d.e") == Tensor{Dtype::boolean, {1, 1}, {1}});
  CHECK(read.words.at("c") == "words");
  CHECK(read.lists.at("g") == std::vector<std::string>{"full", "causal"});
  CHECK_FALSE(read.has("f"));
  CHECK(read.at("h") == Tensor{Dtype::int64, {0}, {}});
  CHECK(read.at("i") == Tensor{Dtype::int64, {2, 0}, {}});
  CHECK(read.lists.at("j") == std::vector<std::string>{"last"});
  for (const char* wrong : {R"({"a": [[[1]], [[1], [2]]]})", R"({"a": [1, [2]]})",
                            R"({"a": [[1], 2]})", R"({"a": [[], 2]})", R"({"a": [0.5]})",
                            R"({"a": [[true], [true, false]]})", R"({"a": [1, null]})"}) {
    const JsonDocument other(wrong, "x");
    CAPTURE(wrong);
    CHECK_THROWS_AS(read_json_tensors(other.root(), "x"), Error);
  }
}

TEST_CASE("of a JSON object what is no tensor and no word is refused, and nothing is passed over") {
  const auto read_json = [](const std::string& text) {
    const JsonDocument document(text, "x.json");
    return read_json_tensors(document.root(), "x.json").tensors.size();
  };
  CHECK(read_json(R"({"a": [1], "b": null, "c": "words", "d": 3, "e": true})") == 3);
  for (const char* const value : {"1.5", "{\"deep\": 1}"}) {
    const std::string text = std::string(R"({"a": [1], "b": )") + value + "}";
    if (value[0] == '{') {
      CHECK(read_json(text) == 2);  // of an object its members, by their path
    } else {
      CHECK_THROWS_WITH(read_json(text), Catch::Contains("is no tensor of integers"));
    }
  }
}

TEST_CASE("two members of a JSON object that have one name are refused") {
  const auto refusal = [](const std::string& text) {
    const JsonDocument document(text, "x.json");
    try {
      static_cast<void>(read_json_tensors(document.root(), "x.json"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const char* const first : {"[1]", "true", "\"w\"", "[\"w\"]"}) {
    for (const char* const second : {"[2]", "\"w\"", "[\"w\"]"}) {
      const std::string text =
          std::string(R"({"a": {"b": )") + first + R"(}, "a.b": )" + second + "}";
      CAPTURE(text);
      CHECK(refusal(text) == "x.json: a.b is there twice");
    }
  }
  CHECK(refusal(R"({"a": {"b": null}, "a.b": [2]})").empty());
}

TEST_CASE("tensors have as many dimensions as they may, and not one more") {
  constexpr std::size_t kMost = kMostDimensions;
  const auto nested = [](std::size_t depth) {
    return "{\"a\": " + std::string(depth, '[') + "7" + std::string(depth, ']') + "}";
  };
  const auto read = [](const std::string& text) {
    const JsonDocument document(text, "x");
    return read_json_tensors(document.root(), "x").at("a");
  };
  CHECK(read(nested(kMost)).shape == std::vector<std::int64_t>(kMost, 1));
  CHECK(read(nested(kMost)).elements == std::vector<std::int64_t>{7});
  CHECK_THROWS_WITH(read(nested(kMost + 1)), Catch::Contains("is not nested like the others"));
  const auto shaped = [](std::size_t axes) {
    std::string sizes;
    for (std::size_t axis = 0; axis < axes; ++axis)
      sizes += "1, ";
    return npy("{'descr': '|u1', 'fortran_order': False, 'shape': (" + sizes + ")}", "b");
  };
  CHECK(read_npy(shaped(kMost), "a", 10).shape.size() == kMost);
  CHECK(npy_refusal(shaped(kMost + 1)).find("too many dimensions") != std::string::npos);
}

TEST_CASE("every version, order and byte order of .npy is read") {
  std::string little;
  for (const std::uint64_t value : {1, 2, 3, 4, 5, 6})
    put_number(little, value, 4);
  const std::string rows = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }  \n";
  const std::string columns = "{'shape': (2, 3), 'fortran_order': True, 'descr': '<i4'}\n";
  for (const int version : {1, 2, 3})
    CHECK(read_npy(npy(rows, little, version), "a", 10).elements ==
          std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
  CHECK(read_npy(npy(columns, little), "a", 10).elements ==
        std::vector<std::int64_t>{1, 3, 5, 2, 4, 6});
  CHECK(
      read_npy(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (1,)}", "\xff\xfe"), "a", 10)
          .elements == std::vector<std::int64_t>{-2});
  CHECK(read_npy(npy("{'descr': '|b1', 'fortran_order': False, 'shape': ()}", "\x01"), "a", 10) ==
        Tensor{Dtype::boolean, {}, {1}});
}

TEST_CASE("an array that lies is refused in words") {
  const auto with = [](const std::string& descr, const std::string& shape,
                       const std::string& data) {
    return npy_refusal(
        npy("{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + "}", data));
  };
  CHECK(with("'|O'", "(1,)", "12345678") ==
        "a: its elements are '|O', pickled objects, which are not read");
  CHECK(with("'<f4'", "(1,)", "1234") ==
        "a: its elements are '<f4', neither integers nor booleans");
  CHECK(with("[('x', '<i4')]", "(1,)", "1234").find("neither integers") != std::string::npos);
  CHECK(with("'<i4'", "(2,)", "1234") ==
        "a: 4 bytes of elements for a shape of [2] of 4 bytes each");
  CHECK(with("'<i4'", "(2000,)", "1234") == "a: 2000 elements; at most 1000 in a file are read");
  CHECK(with("'<i4'", "(4611686018427387904, 4)", "").find("more than 2^63") != std::string::npos);
  CHECK(with("'<i4'", "(4611686018427387904, 4, 0)", "").find("more than 2^63") !=
        std::string::npos);
  CHECK(with("'<i4'", "(-1,)", "").find("no tuple of sizes") != std::string::npos);
  CHECK(with("'|b1'", "(1,)", "\x02") == "a: a boolean that is 2");
  CHECK(npy_refusal("\x93NUMPZ").find("is no .npy") != std::string::npos);
  const std::string keys[] = {"'descr': '<i4'", "'fortran_order': False", "'shape': (1,)"};
  for (int left_out = 0; left_out < 3; ++left_out) {
    const std::string two = keys[(left_out + 1) % 3] + ", " + keys[(left_out + 2) % 3];
    CHECK(npy_refusal(npy("{" + two + "}", "1234")) ==
          "a: the header of the .npy: needs descr, fortran_order and shape");
    CHECK(npy_refusal(npy("{" + two + ", " + two + "}", "1234")).find("unknown or repeated key") !=
          std::string::npos);
  }
  CHECK(npy_refusal(npy(std::string(20'000, ' '), "")).find("a header of 20000 bytes") !=
        std::string::npos);
  const std::string whole =
      npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1), }\n", "1234");
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK_FALSE(npy_refusal(whole.substr(0, size)).empty());
}

TEST_CASE("a header that is cut anywhere is refused, whatever bytes come behind it") {
  const std::string rest = "], 'fortran_order': False, 'shape': (1L, 2), }]})'\" : [";
  for (const std::string header :
       {"{'descr': '<i4', 'fortran_order': False, 'shape': (1L, 2), }",
        "{'descr': [('x', [('y', '<i4')])], 'fortran_order': True, 'shape': (), }"}) {
    for (std::size_t size = 0; size < header.size(); ++size) {
      CAPTURE(header.substr(0, size));
      for (const std::string& behind : {std::string(), rest})
        CHECK(npy_refusal(npy(header.substr(0, size), behind)).find("the header of the .npy") !=
              std::string::npos);
    }
  }
  const auto says = [](const std::string& header, const std::string& words) {
    return npy_refusal(npy(header, "]'}")) == "a: the header of the .npy: " + words;
  };
  CHECK(says("{'descr': [('x', '<i4')", "a list does not end"));
  CHECK(says("{'descr", "a string does not end"));
  CHECK(says("{'descr'", "':' is missing at byte 8"));
  CHECK(says("{'descr': '|b1', 'fortran_order': Tru", "fortran_order is neither True nor False"));
}

TEST_CASE("a tensor of floats is refused where it is asked for, and only there") {
  const std::string floats = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "1234");
  const std::string ints =
      npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}", std::string("\x07\0\0\0", 4));
  const Bundle bundle =
      read_npz(write_zip({{"f.npy", floats}, {"i.npy", ints}, {"t.txt", "x"}}), "x.npz");
  CHECK(bundle.at("i").elements == std::vector<std::int64_t>{7});
  CHECK_THROWS_WITH(bundle.at("f"),
                    "x.npz: f: its elements are '<f4', neither integers nor "
                    "booleans");
  CHECK_THROWS_WITH(bundle.at("t.txt"), "x.npz: t.txt is no array of numpy's");
  CHECK_THROWS_WITH(bundle.at("g"), "x.npz: g is missing; there are: f, i, t.txt");
}

std::string safetensors_refusal(const std::string& header, const std::string& data) {
  std::string bytes;
  put_number(bytes, header.size(), 8);
  try {
    static_cast<void>(read_safetensors(bytes + header + data, "x"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("safetensors that lie are refused in words") {
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
    return R"({"a": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" +
           offsets + "}}";
  };
  CHECK(safetensors_refusal(one("I32", "[1]", "[0, 4]"), "1234").empty());
  CHECK(safetensors_refusal(one("F32", "[1]", "[0, 4]"), "1234").empty());
  CHECK(safetensors_refusal(one("I32", "[2]", "[0, 4]"), "1234") ==
        "x: /a/data_offsets: are 4 bytes for a shape of [2] of 4 bytes each");
  CHECK(safetensors_refusal(one("I32", "[1]", "[1, 5]"), "12345") ==
        "x: a begins at byte 1, where the tensor before ends at 0");
  CHECK(safetensors_refusal(one("I32", "[1]", "[0, 4]"), "12345") ==
        "x: the file has 5 bytes of tensors, the header 4");
  CHECK(safetensors_refusal(one("I32", "[1]", "[0, 9]"), "1234").find("/a/data_offsets/1") !=
        std::string::npos);
  CHECK(safetensors_refusal(one("I32", "[9223372036854775807, 2]", "[0, 4]"), "1234")
            .find("more than 2^63") != std::string::npos);
  CHECK(safetensors_refusal(R"({"a": {}, "a": {}})", "").find("given twice") != std::string::npos);
  CHECK(safetensors_refusal(R"({"a": 1})", "").find("x: /a") != std::string::npos);
}

TEST_CASE("sizes that Python 2 wrote as long ones are read") {
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 1L)}";
  CHECK(read_npy(npy(header, "ab"), "a", 10) == Tensor{Dtype::uint8, {2, 1}, {'a', 'b'}});
  CHECK_FALSE(
      npy_refusal(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2l,)}", "ab")).empty());
}

}  // namespace
}  // namespace stagger::formats
