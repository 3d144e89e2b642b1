"""One kernel under the names of several profilers is one kernel; two kernels stay two."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.names.normalise import normalised_kernel_name
from tests.call_counts import count_calls

FILL = (
    "at::native::vectorized_elementwise_kernel<4,at::native::FillFunctor<float>,"
    "std::array<char*,1>>(3)"
)
WHERE = (
    "at::native::vectorized_elementwise_kernel<2,at::native::{anonymous}::where_kernel_impl"
    "(at::TensorIterator&)::{lambda()#1}::operator()()::{lambda()#8}::operator()()::"
    "{lambda(bool,long,long)#1},std::array<char*,4>>(3)"
)

FBGEMM_ARGUMENTS = ", ".join(
    [
        *["at::GenericPackedTensorAccessor<long, 1ul, at::RestrictPtrTraits, int>"] * 3,
        "long",
        "at::GenericPackedTensorAccessor<long, 1ul, at::RestrictPtrTraits, int>",
        "{}FixedDivisor",
    ]
)
BOUNDS_CHECK = f"void bounds_check_indices_kernel<long>({FBGEMM_ARGUMENTS})"
OF_TWO_VERSIONS = [BOUNDS_CHECK.format(""), BOUNDS_CHECK.format("fbgemm_gpu::")]
"""One kernel of FBGEMM before and after the class of its last argument moved into a namespace."""

SPELLINGS = {
    "bounds_check_indices_kernel<long>(6)": OF_TWO_VERSIONS,
    FILL: [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>,"
            " std::array<char *, (unsigned long)1>>(int, T2, T3)"
        ),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1E"
            "EEEviT0_T1_"
        ),
    ],
    WHERE: [
        (
            "void at::native::vectorized_elementwise_kernel<2, at::native::(anonymous namespace)::"
            "where_kernel_impl(at::TensorIterator&)::{lambda()#1}::operator()() const::{lambda()#8}"
            "::operator()() const::{lambda(bool, long, long)#1}, std::array<char*, 4ul> >(int, "
            "at::native::(anonymous namespace)::where_kernel_impl(at::TensorIterator&)::"
            "{lambda()#1}::operator()() const::{lambda()#8}::operator()() const::"
            "{lambda(bool, long, long)#1}, std::array<char*, 4ul>)"
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)2, at::native::<unnamed>::"
            "where_kernel_impl(at::TensorIterator &)::[lambda() (instance 1)]::operator ()() const"
            "::[lambda() (instance 8)]::operator ()() const::[lambda(bool, long, long) (instance 1"
            ")], std::array<char *, (unsigned long)4>>(int, T2, T3)"
        ),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi2EZZZNS0_49_GLOBAL__N__d2ba64fb_16_Tens"
            "orCompare_cu_71e06f4e17where_kernel_implERNS_14TensorIteratorEENKUlvE_clEvENKUlvE6_cl"
            "EvEUlbllE_St5arrayIPcLm4EEEEviT0_T1_"
        ),
    ],
    "at::native::elementwise_kernel<128,2,at::native::gpu_kernel_impl_nocast<at::native::F<float>>"
    "::{lambda(int)#1}>(2)": [
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::"
            "native::F<float> >(at::TensorIteratorBase&, at::native::F<float> const&)::{lambda(int)"
            "#1}>(int, at::native::gpu_kernel_impl_nocast<at::native::F<float> >(at::"
            "TensorIteratorBase&, at::native::F<float> const&)::{lambda(int)#1})"
        ),
        (
            "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::"
            "gpu_kernel_impl_nocast<at::native::F<float>>(at::TensorIteratorBase &, const T1 &)::"
            "[lambda(int) (instance 1)]>(int, T3)"
        ),
    ],
    "{anonymous}::softmax<float,6,0,1>(2)": [
        "void (anonymous namespace)::softmax<float, 6, false, true>(float*, float const*)",
        "void <unnamed>::softmax<float, (int)6, (bool)0, (bool)1>(T1 *, const T1 *)",
        "void _GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f63::softmax<float, 6, 0, 1>(float*, float*)",
    ],
    "internal::gemvx::kernel<int,-2,Tensor<float const>>(1)": [
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, -2, "
            "Tensor<float const> >(Params<Tensor<float const> >)"
        ),
        (
            "std::enable_if<!((bool)0), void>::type internal::gemvx::kernel<int, (int)-2, "
            "Tensor<const float>>(T3)"
        ),
    ],
    "vllm::norm<c10::BFloat16,8>(1)": [
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
            "vllm::norm<c10::BFloat16, 8>(c10::BFloat16*)"
        ),
        "void vllm::norm<c10::BFloat16, (int)8>(T1 *)",
    ],
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096>)": [
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "void ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    ],
    "count<cudnnKernelDataType_t,2>(0)": [
        "void count<cudnnKernelDataType_t, (cudnnKernelDataType_t)2>()",
        "void count<cudnnKernelDataType_t, 2>()",
    ],
    "scale(float const*,float*)": [
        "scale(float const*, float*)",
        "scale(const float *, float *)",
        "_Z5scalePKfPf",
    ],
    "triton_poi_fused_add_0": ["triton_poi_fused_add_0", "triton_poi_fused_add_0_0d1d2d3de4"],
    "attn_fwd": ["attn_fwd", "attn_fwd.kd", "attn_fwd_0d1d2d3d4d5d6789d10c11", "attn_fwd_0d1"],
}

DIFFERENT = [
    ("void f<float>(float*)", "void f<double>(double*)"),
    ("void f<float>(float*)", "void f<float>(float*, int)"),
    ("scale(float*)", "scale(double*)"),
    ("void f<float const>(int)", "void f<float>(int)"),
    ("void f<float*>(int)", "void f<float>(int)"),
    ("void f<g()::{lambda()#1}>(int)", "void f<g()::{lambda()#2}>(int)"),
    ("void f<g()::{lambda(int)#1}>(int)", "void f<g()::{lambda(float)#1}>(int)"),
    ("void f<unsigned int>(int)", "void f<int>(int)"),
    ("void f<std::function<int (int)> >(int)", "void f<std::function<int (float)> >(int)"),
    ("void f<(anonymous namespace)::A>(int)", "void f<A>(int)"),
    ("triton_poi_fused_add_0", "triton_poi_fused_add_1"),
    ("scan_0d", "scan_1d"),
    ("pool_01", "pool_02"),
    ("Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pinned)"),
    ("my kernel (a)", "your kernel (a)"),
]

TAKEN_FOR_ONE = [
    ("void f<float>(float*)", "void f<float>(double*)"),
    ("attn_fwd_0d1d2d", "attn_fwd_0d1d2c"),
    (
        "_ZN36_GLOBAL__N__50f1b6c4_4_A_cu_0e96ed381fEv",
        "_ZN36_GLOBAL__N__71f2b6c4_4_B_cu_1e96ed381fEv",
    ),
]
"""Different kernels that share a name: the limits that the documentation of `compare` lists."""


@pytest.mark.parametrize(
    ("normalised", "name"),
    [(normalised, name) for normalised, names in SPELLINGS.items() for name in names],
)
def test_spellings_of_one_kernel(normalised, name):
    assert normalised_kernel_name(name) == normalised


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_kernels_stay_different(one, other):
    assert normalised_kernel_name(one) != normalised_kernel_name(other)


@pytest.mark.parametrize(("one", "other"), TAKEN_FOR_ONE)
def test_known_limits(one, other):
    assert normalised_kernel_name(one) == normalised_kernel_name(other)


@pytest.mark.parametrize(
    "name", ["Memset (Device)", "Memcpy HtoD (Pinned -> Device)", "volta_sgemm_64x64_nt", "k_0d2d"]
)
def test_names_that_stay_as_they_are(name):
    assert normalised_kernel_name(name) == name


def test_mangled_and_demangled_names_of_a_real_export(real_traces):
    path = real_traces / "nsys" / "h100_2gpu_1s.sqlite"
    query = (
        "SELECT DISTINCT d.value, m.value FROM CUPTI_ACTIVITY_KIND_KERNEL k "
        "JOIN StringIds d ON d.id = k.demangledName JOIN StringIds m ON m.id = k.mangledName"
    )
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    pairs = connection.execute(query).fetchall()
    connection.close()
    assert len(pairs) == 41
    apart = [pair for pair in pairs if len({normalised_kernel_name(each) for each in pair}) > 1]
    assert apart == []
    assert len({normalised_kernel_name(mangled) for _, mangled in pairs}) == 41


def test_the_kernels_of_a_real_job_stay_apart(real_kernels):
    """Of all jobs together, only one kernel has two names: jobs of two versions of FBGEMM."""
    spellings = defaultdict(set)
    for job, names in real_kernels.items():
        assert len({normalised_kernel_name(name) for name in names}) == len(names), job
        for name in names:
            spellings[normalised_kernel_name(name)].add(name)
    assert len(spellings) > 500
    of_several = [names for names in spellings.values() if len(names) > 1]
    assert of_several == [set(OF_TWO_VERSIONS)]


HOSTILE = {
    "<": lambda size: "<" * size,
    ">": lambda size: ">" * size,
    "(": lambda size: "(" * size,
    " ": lambda size: " " * size,
    "a<": lambda size: "a<" * (size // 2),
    "a<b>(c)::": lambda size: "a<b>(c)::" * (size // 9),
    "a b<c>(d)::": lambda size: "a b<c>(d)::" * (size // 11),
    "void f<": lambda size: "void f<" * (size // 14) + ">(x)::g" * (size // 14),
    "f<f<f<": lambda size: ("f<" * 400 + ">(x)::y" * 400 + ",") * (size // 3600),
    "const": lambda size: "const " * (size // 6),
    "operator": lambda size: "operator " * (size // 9),
    "operator, spaces": lambda size: "operator" + " " * size + "x",
    "instance": lambda size: "(instance 1" * (size // 11),
    "_0": lambda size: "_0" * (size // 2),
    "_0111": lambda size: "k_0" + "1" * size,
    "mangled": lambda size: "_Z" + "N" * size,
}
"""Names of about a size (characters) that invite work which grows faster than they do."""


@pytest.mark.parametrize("which", HOSTILE)
def test_hostile_names_take_linear_work(which):
    once, twice = (
        count_calls(normalised_kernel_name, HOSTILE[which](size)) for size in (18_000, 36_000)
    )
    assert twice < 2.1 * once
    name = HOSTILE[which](200_000)
    assert len(normalised_kernel_name(name)) <= len(name)


PIECES = st.sampled_from(
    [
        *(
            "f",
            "<",
            ">",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ",",
            "::",
            " ",
            "const ",
            "&",
            "*",
            "-",
            "7",
        ),
        *("lambda", "#1}", "(instance 1)]", "operator()", "<unnamed>", "void ", "_0d1d", "(int)"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_has_a_normalised_name(text):
    assert bool(normalised_kernel_name(text)) == bool(text)


@given(st.text(max_size=30))
def test_any_characters_have_a_normalised_name(text):
    assert bool(normalised_kernel_name(text)) == bool(text)
