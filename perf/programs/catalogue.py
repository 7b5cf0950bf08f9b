"""The programs, one line each: small enough that PyTorch takes a few seconds for each on one core.

A line is `Program`'s first five fields (name, package, setup, model, inputs), and by name what differs from the rest.
"""

from __future__ import annotations

from .program import Program as P

TIMM = "import timm"
VISION = "import torchvision.models as models"
SEGMENTATION = "import segmentation_models_pytorch as smp"
METRICS = "import torchmetrics"
KORNIA = "import kornia"
TRANSFORMERS = "import transformers as t"
GPYTORCH = "import gpytorch"
NETWORK = "model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4))"
ROWS = "(normal(32, 16),)"
IMAGES = "(normal(2, 3, 64, 64),)"
SMALL_IMAGES = "(normal(2, 3, 32, 32),)"
IMAGE_PAIR = "(uniform(2, 3, 64, 64) * 0.8 + 0.1, uniform(2, 3, 64, 64) * 0.8 + 0.1)"
TOKENS = "(integers(64, 2, 32),)"
WORDS = "(integers(99, 2, 16),)"
SMALL = "vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=64"


def timm(name: str, options: str = "", inputs: str = IMAGES, **rest: object) -> P:
    """Return a timm model by its name, with ten classes."""
    more = f", {options}" if options else ""
    model = f"timm.create_model({name!r}, num_classes=10{more})"
    return P(f"timm.{name}", "timm", TIMM, model, inputs, **rest)  # type: ignore[arg-type]


def optimizer(name: str, package: str, setup: str, expression: str) -> P:
    """Return an optimizer program, which trains a small network."""
    return P(name, package, f"{setup}\n{NETWORK}", "model", ROWS, optimizer=expression)


# fmt: off
PROGRAMS: tuple[P, ...] = (
    # images
    timm("resnet18"),
    timm("resnet26d"),
    timm("mobilenetv3_small_050"),
    timm("efficientnet_lite0"),
    timm("regnetx_002"),
    timm("densenet121"),
    timm("convnext_atto"),
    timm("ghostnet_050", "drop_rate=0.0"),
    timm("vit_tiny_patch16_224", "img_size=64, embed_dim=48, depth=3"),
    timm("deit_tiny_patch16_224", "img_size=64, embed_dim=48, depth=3"),
    timm("swin_tiny_patch4_window7_224", "img_size=64, window_size=4, drop_path_rate=0.0, embed_dim=24, depths=(1, 1, 2, 1), num_heads=(1, 2, 2, 4)"),
    timm("gmlp_ti16_224", "img_size=64"),
    timm("poolformer_s12"),
    timm("maxvit_rmlp_pico_rw_256", "img_size=64"),
    P("torchvision.resnet18", "torchvision", VISION, "models.resnet18(num_classes=10)", IMAGES),
    P("torchvision.vgg11_bn", "torchvision", VISION, "models.vgg11_bn(num_classes=10)", SMALL_IMAGES),
    P("torchvision.squeezenet1_1", "torchvision", VISION, "models.squeezenet1_1(num_classes=10)", IMAGES),
    P("torchvision.shufflenet_v2_x0_5", "torchvision", VISION, "models.shufflenet_v2_x0_5(num_classes=10)", IMAGES, tolerance=1e-3),
    P("torchvision.vision_transformer", "torchvision", VISION, "models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10)", SMALL_IMAGES),
    P("torchvision.deeplabv3", "torchvision", VISION, "models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)", IMAGES, tolerance=1e-3),
    P("torchvision.transforms", "torchvision", "from torchvision.transforms import v2", "v2.Compose([v2.Resize(48, antialias=True), v2.CenterCrop(40), v2.Grayscale(3), v2.GaussianBlur(3, 1.0), v2.Normalize([0.5] * 3, [0.2] * 3)])", "(uniform(2, 3, 64, 64),)"),
    P("efficientnet_pytorch.b0", "efficientnet-pytorch", "from efficientnet_pytorch import EfficientNet", "EfficientNet.from_name('efficientnet-b0', num_classes=10, drop_connect_rate=0.0)", IMAGES, tolerance=1e-3),
    P("vit_pytorch.ViT", "vit-pytorch", "from vit_pytorch import ViT", "ViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=4, mlp_dim=64)", SMALL_IMAGES),
    P("vit_pytorch.SimpleViT", "vit-pytorch", "from vit_pytorch import SimpleViT", "SimpleViT(image_size=32, patch_size=8, num_classes=10, dim=32, depth=2, heads=4, mlp_dim=64)", SMALL_IMAGES),
    P("vit_pytorch.CvT", "vit-pytorch", "from vit_pytorch.cvt import CvT", "CvT(num_classes=10, s1_emb_dim=16, s2_emb_dim=32, s2_depth=1, s3_emb_dim=32, s3_depth=2)", IMAGES, tolerance=1e-3),
    P("vit_pytorch.MaxViT", "vit-pytorch", "from vit_pytorch.max_vit import MaxViT", "MaxViT(num_classes=10, dim=16, dim_head=8, depth=(1, 1), window_size=4)", IMAGES, tolerance=1e-3),
    P("mlp_mixer_pytorch.MLPMixer", "mlp-mixer-pytorch", "from mlp_mixer_pytorch import MLPMixer", "MLPMixer(image_size=32, channels=3, patch_size=8, dim=32, depth=2, num_classes=10)", SMALL_IMAGES),
    P("glom_pytorch.Glom", "glom-pytorch", "from glom_pytorch import Glom", "Glom(dim=32, levels=3, image_size=32, patch_size=8)", SMALL_IMAGES, call="model(*inputs, iters=4)"),
    P("lambda_networks.LambdaLayer", "lambda-networks", "from lambda_networks import LambdaLayer", "LambdaLayer(dim=16, dim_out=16, r=7, dim_k=8, heads=2)", "(normal(2, 16, 16, 16),)"),
    P("axial_attention.AxialAttention", "axial-attention", "from axial_attention import AxialAttention", "AxialAttention(dim=32, dim_index=1, heads=4)", "(normal(1, 32, 12, 16),)"),
    P("segmentation_models_pytorch.Unet", "segmentation-models-pytorch", SEGMENTATION, "smp.Unet('resnet18', encoder_weights=None, classes=3)", IMAGES, tolerance=1e-3),
    P("segmentation_models_pytorch.FPN", "segmentation-models-pytorch", SEGMENTATION, "smp.FPN('resnet18', encoder_weights=None, classes=3)", IMAGES, tolerance=1e-3),
    P("segmentation_models_pytorch.DiceLoss", "segmentation-models-pytorch", SEGMENTATION, "smp.losses.DiceLoss('multiclass')", "(normal(2, 3, 16, 16), integers(3, 2, 16, 16))"),
    P("byol_pytorch.BYOL", "byol-pytorch", "from byol_pytorch import BYOL\nimport timm", "BYOL(timm.create_model('resnet18', num_classes=10), image_size=32, hidden_layer='global_pool', projection_size=32, projection_hidden_size=64, augment_fn=nn.Identity(), augment_fn2=nn.Identity())", "(normal(4, 3, 32, 32),)", optimizer="torch.optim.SGD(parameters, lr=1e-2)", tolerance=1e-3),
    P("x_clip.CLIP", "x-clip", "from x_clip import CLIP", "CLIP(dim_text=32, dim_image=32, dim_latent=32, num_text_tokens=64, text_enc_depth=1, text_seq_len=16, text_heads=2, visual_enc_depth=1, visual_image_size=32, visual_patch_size=8, visual_heads=2, visual_patch_dropout=0.0)", "(integers(64, 4, 16), normal(4, 3, 32, 32))", call="model(*inputs, return_loss=True)"),
    P("slot_attention.SlotAttention", "slot-attention", "from slot_attention import SlotAttention", "SlotAttention(num_slots=4, dim=32, iters=3)", "(normal(2, 64, 32),)", draws=True),
    P("siren_pytorch.SirenNet", "siren-pytorch", "from siren_pytorch import SirenNet", "SirenNet(dim_in=2, dim_hidden=64, dim_out=3, num_layers=3)", "(uniform(256, 2),)"),
    P("denoising_diffusion_pytorch.GaussianDiffusion", "denoising-diffusion-pytorch", "from denoising_diffusion_pytorch import Unet, GaussianDiffusion", "GaussianDiffusion(Unet(16, dim_mults=(1, 2)), image_size=16, timesteps=50)", "(uniform(2, 3, 16, 16),)", draws=True),
    P("x_unet.XUnet", "x-unet", "from x_unet import XUnet", "XUnet(dim=16, channels=3, dim_mults=(1, 2), nested_unet_depths=(1, 0), num_blocks_per_stage=(1, 1), num_self_attn_per_stage=(0, 1))", SMALL_IMAGES),
    P("rectified_flow_pytorch.RectifiedFlow", "rectified-flow-pytorch", "from rectified_flow_pytorch import RectifiedFlow, Unet", "RectifiedFlow(Unet(dim=16, dim_mults=(1, 2)))", "(uniform(2, 3, 16, 16),)", draws=True),
    P("pytorch_msssim.MS_SSIM", "pytorch-msssim", "from pytorch_msssim import ms_ssim, ssim", "lambda x, y: (ms_ssim(x, y, data_range=1.0, win_size=3), ssim(x, y, data_range=1.0))", IMAGE_PAIR),
    P("kornia.filters", "kornia", KORNIA, "lambda x: (kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), kornia.filters.sobel(x), kornia.filters.median_blur(x, (3, 3)))", "(uniform(2, 3, 32, 32),)"),
    P("kornia.color", "kornia", KORNIA, "lambda x: (kornia.color.rgb_to_hsv(x), kornia.color.rgb_to_lab(x), kornia.color.rgb_to_ycbcr(x))", "(uniform(2, 3, 32, 32),)"),
    P("kornia.geometry", "kornia", KORNIA, "lambda x, angle: kornia.geometry.transform.rotate(x, angle)", "(uniform(2, 3, 32, 32), uniform(2) * 90)"),
    P("piq.losses", "piq", "import piq", "lambda x, y: (piq.ssim(x, y), piq.gmsd(x, y), piq.vif_p(x, y), piq.haarpsi(x, y))", IMAGE_PAIR),
    # sequences
    P("x_transformers.decoder", "x-transformers", "from x_transformers import TransformerWrapper, Decoder", "TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=4))", TOKENS),
    P("x_transformers.rotary", "x-transformers", "from x_transformers import TransformerWrapper, Decoder", "TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=Decoder(dim=32, depth=2, heads=4, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True, attn_kv_heads=2))", TOKENS),
    P("x_transformers.encoder_decoder", "x-transformers", "from x_transformers import XTransformer", "XTransformer(dim=32, enc_num_tokens=64, enc_depth=1, enc_heads=4, enc_max_seq_len=32, dec_num_tokens=64, dec_depth=1, dec_heads=4, dec_max_seq_len=32)", "(integers(64, 2, 32), integers(64, 2, 32))"),
    P("performer_pytorch.PerformerLM", "performer-pytorch", "from performer_pytorch import PerformerLM", "PerformerLM(num_tokens=64, max_seq_len=32, dim=32, depth=2, heads=4, dim_head=8)", TOKENS, draws=True),
    P("linformer.LinformerLM", "linformer", "from linformer import LinformerLM", "LinformerLM(num_tokens=64, dim=32, seq_len=32, depth=2, k=8, heads=4)", TOKENS),
    P("reformer_pytorch.ReformerLM", "reformer-pytorch", "from reformer_pytorch import ReformerLM", "ReformerLM(num_tokens=64, dim=32, depth=2, max_seq_len=32, heads=4, dim_head=8, bucket_size=8, n_hashes=2, causal=True)", TOKENS, draws=True),
    P("perceiver_pytorch.Perceiver", "perceiver-pytorch", "from perceiver_pytorch import Perceiver", "Perceiver(num_freq_bands=4, depth=2, max_freq=8.0, num_latents=16, latent_dim=32, latent_heads=4, latent_dim_head=8, cross_dim_head=8, num_classes=10)", "(normal(2, 16, 16, 3),)"),
    P("rotary_embedding_torch.RotaryEmbedding", "rotary-embedding-torch", "from rotary_embedding_torch import RotaryEmbedding", "RotaryEmbedding(dim=16)", "(normal(2, 4, 32, 32),)", call="model.rotate_queries_or_keys(*inputs)"),
    P("local_attention.LocalTransformer", "local-attention", "from local_attention import LocalTransformer", "LocalTransformer(num_tokens=64, max_seq_len=32, dim=32, depth=2, heads=4, dim_head=8, local_attn_window_size=8)", TOKENS),
    P("conformer.Conformer", "conformer", "from conformer import Conformer", "Conformer(dim=32, depth=2, dim_head=8, heads=4, conv_kernel_size=7)", "(normal(2, 32, 32),)"),
    P("nystrom_attention.Nystromformer", "nystrom-attention", "from nystrom_attention import Nystromformer", "Nystromformer(dim=32, depth=2, dim_head=8, heads=4, num_landmarks=8)", "(normal(2, 64, 32),)", tolerance=1e-3),
    P("g_mlp_pytorch.gMLP", "g-mlp-pytorch", "from g_mlp_pytorch import gMLP", "gMLP(num_tokens=64, dim=32, depth=2, seq_len=32)", TOKENS),
    P("gateloop_transformer.Transformer", "gateloop-transformer", "from gateloop_transformer import Transformer", "Transformer(num_tokens=64, dim=32, depth=2, dim_head=8, heads=4, use_gate_looped_attn=True)", TOKENS),
    P("linear_attention_transformer.LM", "linear-attention-transformer", "from linear_attention_transformer import LinearAttentionTransformerLM", "LinearAttentionTransformerLM(num_tokens=64, dim=32, depth=2, max_seq_len=32, heads=4, causal=True, n_local_attn_heads=2, local_attn_window_size=8)", TOKENS),
    P("sinkhorn_transformer.LM", "sinkhorn-transformer", "from sinkhorn_transformer import SinkhornTransformerLM", "SinkhornTransformerLM(num_tokens=64, dim=32, max_seq_len=32, depth=2, heads=4, bucket_size=8, causal=True)", TOKENS, draws=True),
    P("routing_transformer.LM", "routing-transformer", "from routing_transformer import RoutingTransformerLM", "RoutingTransformerLM(num_tokens=64, dim=32, depth=2, max_seq_len=32, heads=4, dim_head=8, window_size=8, causal=True, n_local_attn_heads=2)", TOKENS, draws=True),
    P("memory_efficient_attention_pytorch.Transformer", "memory-efficient-attention-pytorch", "from memory_efficient_attention_pytorch.transformer import Transformer", "Transformer(num_tokens=64, max_seq_len=32, dim=32, depth=2, causal=True, dim_head=8, heads=4, use_flash_attn=False)", TOKENS),
    P("palm_rlhf_pytorch.PaLM", "palm-rlhf-pytorch", "from palm_rlhf_pytorch import PaLM", "PaLM(num_tokens=64, dim=32, depth=2, dim_head=8, heads=4)", TOKENS),
    P("h_transformer_1d.HTransformer1D", "h-transformer-1d", "from h_transformer_1d import HTransformer1D", "HTransformer1D(num_tokens=64, dim=32, depth=2, max_seq_len=32, causal=True, heads=4, dim_head=8, block_size=8)", TOKENS),
    P("multistream_transformers.Transformer", "multistream-transformers", "from multistream_transformers import MultistreamTransformer", "MultistreamTransformer(num_tokens=64, dim=32, depth=2, max_seq_len=32, heads=4, dim_head=8, num_streams=2)", TOKENS),
    P("flash_pytorch.FLASHTransformer", "flash-pytorch", "from flash_pytorch import FLASHTransformer", "FLASHTransformer(num_tokens=64, dim=32, depth=2, group_size=8, query_key_dim=16, causal=True)", TOKENS),
    P("mega_pytorch.Mega", "mega-pytorch", "from mega_pytorch import Mega", "Mega(num_tokens=64, dim=32, depth=2, ema_heads=4, attn_dim_qk=16, attn_dim_value=32, laplacian_attn_fn=True)", TOKENS),
    P("recurrent_memory_transformer_pytorch.RMT", "recurrent-memory-transformer-pytorch", "from recurrent_memory_transformer_pytorch import RecurrentMemoryTransformer", "RecurrentMemoryTransformer(num_tokens=64, dim=32, depth=2, num_memory_tokens=4, seq_len=32, dim_head=8, heads=4)", TOKENS),
    P("block_recurrent_transformer_pytorch.Transformer", "block-recurrent-transformer-pytorch", "from block_recurrent_transformer_pytorch import BlockRecurrentTransformer", "BlockRecurrentTransformer(num_tokens=64, dim=32, depth=2, dim_head=8, heads=4, max_seq_len=32, block_width=16, recurrent_layers=(2,))", TOKENS),
    P("titans_pytorch.MemoryAsContextTransformer", "titans-pytorch", "from titans_pytorch import MemoryAsContextTransformer", "MemoryAsContextTransformer(num_tokens=64, dim=32, depth=2, segment_len=16, dim_head=8, heads=4, num_longterm_mem_tokens=4)", TOKENS),
    P("soft_moe_pytorch.SoftMoE", "soft-moe-pytorch", "from soft_moe_pytorch import SoftMoE", "SoftMoE(dim=32, seq_len=32, num_experts=4)", "(normal(2, 32, 32),)"),
    P("mixture_of_experts.MoE", "mixture-of-experts", "from mixture_of_experts import MoE", "MoE(dim=32, num_experts=4, hidden_dim=64)", "(normal(2, 32, 32),)", draws=True),
    P("st_moe_pytorch.MoE", "st-moe-pytorch", "from st_moe_pytorch import MoE", "MoE(dim=32, num_experts=4)", "(normal(2, 32, 32),)", draws=True),
    P("product_key_memory.PKM", "product-key-memory", "from product_key_memory import PKM", "PKM(dim=32, heads=2, num_keys=8, topk=4, dim_head=16)", "(normal(2, 32, 32),)"),
    P("vector_quantize_pytorch.VectorQuantize", "vector-quantize-pytorch", "from vector_quantize_pytorch import VectorQuantize", "VectorQuantize(dim=16, codebook_size=32, decay=0.8, commitment_weight=1.0)", "(normal(2, 64, 16).requires_grad_(),)"),
    P("vector_quantize_pytorch.FSQ", "vector-quantize-pytorch", "from vector_quantize_pytorch import FSQ", "FSQ([8, 5, 5, 5])", "(normal(2, 64, 4),)"),
    P("isab_pytorch.ISAB", "isab-pytorch", "from isab_pytorch import ISAB", "ISAB(dim=32, heads=4, num_latents=8)", "(normal(2, 48, 32),)"),
    P("transformers.bert", "transformers", TRANSFORMERS, f"t.BertForMaskedLM(t.BertConfig({SMALL}))", WORDS),
    P("transformers.gpt2", "transformers", TRANSFORMERS, "t.GPT2LMHeadModel(t.GPT2Config(vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=4))", WORDS, call="model(inputs[0], labels=inputs[0]).logits"),
    P("transformers.llama", "transformers", TRANSFORMERS, f"t.LlamaForCausalLM(t.LlamaConfig({SMALL}, num_key_value_heads=2))", WORDS, call="model(*inputs, use_cache=False).logits"),
    P("transformers.t5", "transformers", TRANSFORMERS, "t.T5ForConditionalGeneration(t.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, dropout_rate=0.0))", WORDS, call="model(input_ids=inputs[0], labels=inputs[0]).logits"),
    P("transformers.vit", "transformers", TRANSFORMERS, "t.ViTForImageClassification(t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8, num_labels=5))", SMALL_IMAGES, call="model(*inputs).logits"),
    P("transformers.generate", "transformers", TRANSFORMERS, "t.GPT2LMHeadModel(t.GPT2Config(vocab_size=99, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=None))", WORDS, call="model.generate(inputs[0], attention_mask=torch.ones_like(inputs[0]), max_new_tokens=8, do_sample=False, pad_token_id=0)", optimizer="None"),
    P("loralib.Linear", "loralib", "import loralib as lora", "nn.Sequential(lora.Linear(16, 64, r=4), nn.ReLU(), lora.Linear(64, 4, r=4))", ROWS),
    P("pytorch_crf.CRF", "pytorch-crf", "from torchcrf import CRF", "CRF(5, batch_first=True)", "(normal(3, 7, 5), integers(5, 3, 7), true(3, 7))"),
    P("entmax.entmax15", "entmax", "import entmax", "lambda x: (entmax.entmax15(x), entmax.sparsemax(x), entmax.entmax_bisect(x, 1.3))", "(normal(8, 32),)"),
    # tables, graphs, geometry, densities, differential equations
    P("pytorch_tabnet.TabNet", "pytorch-tabnet", "from pytorch_tabnet.tab_network import TabNet", "TabNet(16, 4, n_d=8, n_a=8, n_steps=2, virtual_batch_size=16, group_attention_matrix=torch.eye(16))", ROWS),
    P("tab_transformer_pytorch.FTTransformer", "tab-transformer-pytorch", "from tab_transformer_pytorch import FTTransformer", "FTTransformer(categories=(10, 5, 6), num_continuous=4, dim=16, depth=2, heads=2)", "(integers(5, 8, 3), normal(8, 4))"),
    P("egnn_pytorch.EGNN_Network", "egnn-pytorch", "from egnn_pytorch import EGNN_Network", "EGNN_Network(num_tokens=21, dim=16, depth=2, num_nearest_neighbors=4)", "(integers(21, 1, 16), normal(1, 16, 3))"),
    P("normflows.NeuralSpline", "normflows", "import normflows as nf", "nf.NormalizingFlow(nf.distributions.DiagGaussian(4), [nf.flows.AutoregressiveRationalQuadraticSpline(4, 1, 16), nf.flows.LULinearPermute(4)])", "(normal(32, 4),)", call="model.forward_kld(*inputs)"),
    P("zuko.NSF", "zuko", "import zuko", "zuko.flows.NSF(4, transforms=2, hidden_features=(16, 16))", "(normal(32, 4),)", call="model().log_prob(*inputs)"),
    P("zuko.MAF", "zuko", "import zuko", "zuko.flows.MAF(4, 2, transforms=2, hidden_features=(16, 16))", "(normal(32, 4), normal(32, 2))", call="model(inputs[1]).log_prob(inputs[0])"),
    P("gpytorch.ExactGP", "gpytorch", script="gpytorch_exact.py", call="-likelihood_of(model(*inputs), targets)"),
    P("torchdiffeq.odeint", "torchdiffeq", script="torchdiffeq_neural_ode.py"),
    P("torchdiffeq.odeint_adjoint", "torchdiffeq", "from torchdiffeq import odeint_adjoint as odeint\nf = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))\nf.forward = lambda t, y, call=f.forward: call(y)", "f", "(normal(8, 3), torch.linspace(0.0, 1.0, 4))", call="odeint(model, inputs[0], inputs[1], method='rk4', adjoint_params=tuple(model.parameters()))"),
    P("torchcde.natural_cubic", "torchcde", "import torchcde", "lambda x: torchcde.CubicSpline(torchcde.natural_cubic_coeffs(x)).evaluate(2.5)", "(normal(2, 8, 3),)"),
    P("torchsde.sdeint", "torchsde", script="torchsde_latent.py"),
    # training: optimizers, losses, metrics, averages, loops
    optimizer("pytorch_optimizer.AdaBelief", "pytorch-optimizer", "import pytorch_optimizer", "pytorch_optimizer.AdaBelief(parameters, lr=1e-3)"),
    optimizer("pytorch_optimizer.Lamb", "pytorch-optimizer", "import pytorch_optimizer", "pytorch_optimizer.Lamb(parameters, lr=1e-3)"),
    optimizer("pytorch_optimizer.StableAdamW", "pytorch-optimizer", "import pytorch_optimizer", "pytorch_optimizer.StableAdamW(parameters, lr=1e-3)"),
    optimizer("pytorch_optimizer.SOAP", "pytorch-optimizer", "import pytorch_optimizer", "pytorch_optimizer.SOAP(parameters, lr=1e-3)"),
    optimizer("pytorch_optimizer.Muon", "pytorch-optimizer", "import pytorch_optimizer", "pytorch_optimizer.Muon([{'params': [p for p in parameters if p.ndim == 2], 'use_muon': True}, {'params': [p for p in parameters if p.ndim != 2], 'use_muon': False}])"),
    optimizer("pytorch_optimizer.Shampoo", "pytorch-optimizer", "import pytorch_optimizer", "pytorch_optimizer.Shampoo(parameters, lr=1e-3)"),
    optimizer("lion_pytorch.Lion", "lion-pytorch", "from lion_pytorch import Lion", "Lion(parameters, lr=1e-4)"),
    optimizer("adan_pytorch.Adan", "adan-pytorch", "from adan_pytorch import Adan", "Adan(parameters, lr=1e-3)"),
    optimizer("adam_atan2_pytorch.AdamAtan2", "adam-atan2-pytorch", "from adam_atan2_pytorch import AdamAtan2", "AdamAtan2(parameters, lr=1e-3)"),
    optimizer("torch_optimizer.Yogi", "torch-optimizer", "import torch_optimizer", "torch_optimizer.Yogi(parameters, lr=1e-3)"),
    optimizer("torch_optimizer.Ranger", "torch-optimizer", "import torch_optimizer", "torch_optimizer.Ranger(parameters, lr=1e-3)"),
    P("ema_pytorch.EMA", "ema-pytorch", f"from ema_pytorch import EMA\n{NETWORK}\nema = EMA(model, update_after_step=0, update_every=1)", "model", ROWS, call="(ema.update(), ema(inputs[0]), model(inputs[0]))"),
    P("torch_ema.ExponentialMovingAverage", "torch-ema", f"from torch_ema import ExponentialMovingAverage\n{NETWORK}\nema = []", "model", ROWS, call="(ema or ema.append(ExponentialMovingAverage(model.parameters(), 0.9)), ema[0].update(), ema[0].shadow_params[0], model(inputs[0]))"),
    P("info_nce.InfoNCE", "info-nce-pytorch", "from info_nce import InfoNCE", "InfoNCE()", "(normal(8, 16), normal(8, 16))"),
    P("pytorch_metric_learning.losses", "pytorch-metric-learning", "from pytorch_metric_learning import losses, miners", "lambda x, y: (losses.TripletMarginLoss()(x, y), losses.NTXentLoss()(x, y), losses.MultiSimilarityLoss()(x, y, miners.MultiSimilarityMiner()(x, y)))", "(normal(16, 8), integers(4, 16))"),
    P("torchmetrics.classification", "torchmetrics", METRICS, "nn.ModuleList([torchmetrics.Accuracy('multiclass', num_classes=5), torchmetrics.F1Score('multiclass', num_classes=5), torchmetrics.ConfusionMatrix('multiclass', num_classes=5), torchmetrics.AUROC('multiclass', num_classes=5)])", "(normal(32, 5).softmax(-1), integers(5, 32))", call="[metric(*inputs) for metric in model]", optimizer="None"),
    P("torchmetrics.regression", "torchmetrics", METRICS, "nn.ModuleList([torchmetrics.MeanSquaredError(), torchmetrics.R2Score(), torchmetrics.PearsonCorrCoef(), torchmetrics.SpearmanCorrCoef()])", "(normal(32), normal(32))", call="[metric(*inputs) for metric in model]", optimizer="None"),
    P("torchmetrics.image", "torchmetrics", METRICS, "nn.ModuleList([torchmetrics.image.PeakSignalNoiseRatio(data_range=1.0), torchmetrics.image.StructuralSimilarityIndexMeasure(data_range=1.0)])", IMAGE_PAIR, call="[metric(*inputs) for metric in model]", optimizer="None"),
    P("torchinfo.summary", "torchinfo", f"import torchinfo\n{NETWORK}", "model", ROWS, call="(torchinfo.summary(model, input_data=inputs[0], verbose=0).total_params, model(inputs[0]))"),
    P("pytorch_lightning.Trainer", "pytorch-lightning", script="lightning_trainer.py", call="fit(model, *inputs)"),
    P("accelerate.Accelerator", "accelerate", script="accelerate_loop.py", call="forward(*inputs)"),
    P("ignite.Engine", "pytorch-ignite", script="ignite_engine.py", call="fit(*inputs)"),
    P("skorch.NeuralNetRegressor", "skorch", script="skorch_regressor.py", call="fit(*inputs)"),
    P("safetensors.torch", "safetensors", f"import os, tempfile\nfrom safetensors.torch import save_file, load_file\n{NETWORK}\nfile = os.path.join(tempfile.mkdtemp(), 'w')", "model", ROWS, call="(save_file(model.state_dict(), file), load_file(file), model(inputs[0]))"),
)
# fmt: on
